// Compares the native core with plain loops, on any processor and without Python. Prints the
// results of the kernels that every machine has, so that those of two machines can be compared;
// ends with exit code 1 at the first difference.
//
// units [SEED]
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/arpa.hpp"
#include "core/columns.hpp"
#include "core/dense.hpp"
#include "core/dispatch.hpp"
#include "core/hash.hpp"
#include "core/index.hpp"

using namespace tagloom;

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

void check(bool holds, const char* what) {
    if (holds) return;
    std::printf("FAILED: %s (kernels: %s)\n", what, instruction_sets().back().c_str());
    std::exit(1);
}

bool is_near(double a, double b, double tolerance) {
    return a == b || std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
}

double add_logs(double a, double b) {
    if (a < b) std::swap(a, b);
    return b == kNever ? a : a + std::log1p(std::exp(b - a));
}

// Random scores; the same numbers on every machine, which <random>'s distributions do not promise.
class Numbers {
  public:
    explicit Numbers(uint64_t seed) : engine_(seed) {}
    double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
    double score() { return 6 * uniform() - 3; }
    int64_t below(int64_t n) { return static_cast<int64_t>(uniform() * static_cast<double>(n)); }

  private:
    std::mt19937_64 engine_;
};

template <class In>
struct Case {
    int64_t Y, N;
    std::vector<double> transitions, start, stop;
    std::vector<In> emit;
    std::vector<int64_t> offsets{0};

    Case(Numbers& numbers, int64_t labels, int64_t sequences, int64_t longest)
        : Y(labels), N(sequences) {
        for (int64_t i = 0; i < Y * Y; i++)
            transitions.push_back(numbers.below(10) ? numbers.score() : kNever);
        // From the first label every other can be reached, and the first from itself.
        for (int64_t y = 0; y < Y; y++) transitions[y] = numbers.score();
        for (int64_t y = 0; y < Y; y++) start.push_back(numbers.score());
        for (int64_t y = 0; y < Y; y++) stop.push_back(numbers.score());
        for (int64_t n = 0; n < N; n++) offsets.push_back(offsets.back() + numbers.below(longest));
        for (int64_t i = 0; i < offsets.back() * Y; i++)
            emit.push_back(static_cast<In>(numbers.score()));
    }
    DenseBatch<In> batch(int64_t threads) const {
        double largest = 0;
        for (const In score : emit) largest = std::max(largest, std::abs(double(score)));
        return {Y,           1,           1,       transitions.data(), start.data(),
                stop.data(), emit.data(), nullptr, offsets.data(),     N,
                threads,     largest};
    }
    double emission(int64_t t, int64_t y) const { return double(emit[t * Y + y]); }
};

// The best score, log Z and marginals of a sequence that is not empty, in double and log space.
struct Plain {
    double best, log_z;
    std::vector<double> marginals;  // [T, Y]

    template <class In>
    Plain(const Case<In>& of, int64_t n) {
        const int64_t Y = of.Y, first = of.offsets[n], T = of.offsets[n + 1] - first;
        std::vector<double> top(T * Y), alpha(T * Y), beta(T * Y);
        for (int64_t y = 0; y < Y; y++) top[y] = alpha[y] = of.start[y] + of.emission(first, y);
        for (int64_t t = 1; t < T; t++) {
            for (int64_t y = 0; y < Y; y++) {
                double most = kNever, sum = kNever;
                for (int64_t x = 0; x < Y; x++) {
                    const double move = of.transitions[x * Y + y];
                    most = std::max(most, top[(t - 1) * Y + x] + move);
                    sum = add_logs(sum, alpha[(t - 1) * Y + x] + move);
                }
                top[t * Y + y] = most + of.emission(first + t, y);
                alpha[t * Y + y] = sum + of.emission(first + t, y);
            }
        }
        best = log_z = kNever;
        for (int64_t y = 0; y < Y; y++) {
            best = std::max(best, top[(T - 1) * Y + y] + of.stop[y]);
            log_z = add_logs(log_z, alpha[(T - 1) * Y + y] + of.stop[y]);
            beta[(T - 1) * Y + y] = of.stop[y];
        }
        for (int64_t t = T - 1; t-- > 0;) {
            for (int64_t x = 0; x < Y; x++) {
                double sum = kNever;
                for (int64_t y = 0; y < Y; y++)
                    sum = add_logs(sum, of.transitions[x * Y + y] + of.emission(first + t + 1, y) +
                                            beta[(t + 1) * Y + y]);
                beta[t * Y + x] = sum;
            }
        }
        for (int64_t i = 0; i < T * Y; i++)
            marginals.push_back(std::exp(alpha[i] + beta[i] - log_z));
    }
};

uint64_t hash_of(const std::vector<int32_t>& numbers) {
    return hash64({reinterpret_cast<const char*>(numbers.data()), 4 * numbers.size()});
}

template <class In>
void check_kernels(uint64_t seed, bool prints) {
    const double tolerance = sizeof(In) == 4 ? 2e-4 : 1e-6;
    Numbers numbers(seed);
    for (const int64_t Y : {1, 2, 3, 8, 17, 45}) {
        const Case<In> given(numbers, Y, 70, 40);
        const int64_t T = given.offsets.back(), N = given.N;
        std::vector<int32_t> path(T), again(T);
        std::vector<double> score(N), log_z(N), entropies(N), log_z2(N);
        std::vector<In> marginals(T * Y);
        std::vector<uint8_t> ok(N), ok2(N);
        viterbi(given.batch(1), path.data(), score.data());
        viterbi(given.batch(3), again.data(), nullptr);
        check(path == again, "paths with one thread and with three");
        Expected<In> expected;
        expected.marginals = marginals.data();
        sum(given.batch(2), nullptr, expected, log_z.data(), reinterpret_cast<bool*>(ok.data()));
        entropy(given.batch(1), entropies.data(), log_z2.data(),
                reinterpret_cast<bool*>(ok2.data()));
        const NBestPaths nbest_paths = nbest(given.batch(1), 3);
        std::vector<double> uniform(T * 2);
        for (double& u : uniform) u = numbers.uniform();
        std::vector<int32_t> draws(2 * T);
        sample(given.batch(1), 2, uniform.data(), draws.data(), log_z2.data(),
               reinterpret_cast<bool*>(ok2.data()));
        double total = 0;
        int64_t place = 0;
        for (int64_t n = 0; n < N; n++) {
            const int64_t first = given.offsets[n], length = given.offsets[n + 1] - first;
            if (length == 0) {
                place += nbest_paths.count[n];
                continue;
            }
            const Plain plain(given, n);
            check(is_near(score[n], plain.best, 1e-9), "the score of the best path");
            check(is_near(score_of(given.batch(1), n, path.data() + first), plain.best, 1e-9),
                  "the best path");
            check(is_near(nbest_paths.scores[place], plain.best, 1e-9), "the first of the n best");
            for (int64_t k = 1; k < nbest_paths.count[n]; k++)
                check(nbest_paths.scores[place + k] <= nbest_paths.scores[place + k - 1] + 1e-12,
                      "the order of the n best");
            place += nbest_paths.count[n];
            check(ok[n] && ok2[n], "scaled probabilities are enough for small scores");
            check(is_near(log_z[n], plain.log_z, tolerance), "log Z");
            check(entropies[n] > -tolerance &&
                      entropies[n] < length * std::log(double(Y)) + tolerance * 10,
                  "the range of entropy");
            for (int64_t i = 0; i < length * Y; i++)
                check(std::abs(double(marginals[first * Y + i]) - plain.marginals[i]) < tolerance,
                      "a marginal");
            for (int64_t k = 0; k < 2; k++)
                check(score_of(given.batch(1), n, draws.data() + k * T + first) > kNever,
                      "a drawn path is possible");
            total += log_z[n];
        }
        if (prints)
            std::printf("%s, %d labels: log Z %.4f, best paths %016llx\n",
                        sizeof(In) == 4 ? "float" : "double", int(Y), total,
                        static_cast<unsigned long long>(hash_of(path)));
    }
}

void check_index() {
    Index index;
    for (int i = 0; i < 5000; i++) {
        const std::string name = "name " + std::to_string(i % 3000);
        const int32_t id = index.add(hash64(name), [&](std::string& out) { out += name; });
        check(id == i % 3000 && index.name(id) == name, "an index numbers names in order");
    }
    check(index.size() == 3000 && index.counts()[7] == 2, "an index counts");
    const Index copy(index.keys(), index.names(), index.offsets());
    check(copy.table().find(hash64("name 2999")) == 2999, "an index from its keys");
    index.truncate(10);
    check(index.table().find(hash64("name 10")) == -1 && index.size() == 10, "a shorter index");
    try {
        const std::vector<uint64_t> twice{5, 5};
        const Index damaged{std::span<const uint64_t>(twice)};
        check(false, "a key that occurs twice");
    } catch (const std::invalid_argument&) {
    }
}

void check_readers() {
    const std::string text = "They\tN\ncan\tV\n\nfish\tN\n\n";
    const ColumnRules rules{'\t', 2, 0, 1, -1, -1, "#", false};
    const Scan scan = scan_columns(text, rules, true, false);
    check(scan.fault == Fault::none && scan.blocks.size() == 2 && scan.rows.size() == 3,
          "two sentences in columns");
    const std::vector<std::string_view> labels{"A", "B", "C"};
    check(put_fields(text, scan.rows, '\t', false, labels) == "They\tA\ncan\tB\n\nfish\tC\n\n",
          "new labels in columns");
    check(scan_columns("one\n", rules, true, false).fault == Fault::columns, "a missing column");
    ArpaReader reader;
    for (const char c : std::string_view("\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n-1\t<unk>\n"
                                         "-99\t<s>\t-0.5\n-1\t</s>\n-0.3\ta\n\n\\2-grams:\n"
                                         "-0.2\t<s> a\n\n\\end\\\n"))
        reader.read({&c, 1});
    check(reader.finish(2).log_prob.size() >= 5 && reader.has_unknown(), "an ARPA file");
    try {
        ArpaReader damaged;
        damaged.read("\\data\\\nngram 1=x\n");
        check(false, "a size that is not a number");
    } catch (const ArpaFault& fault) {
        check(fault.line == 2, "the line of a fault");
    }
}

}  // namespace

int main(int n_arguments, char** arguments) {
    const uint64_t seed = n_arguments > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1;
    for (const std::string& name : instruction_sets()) {
        check(use_instruction_set(name), "every set that is listed can be used");
        check_kernels<float>(seed, name == "baseline");
        check_kernels<double>(seed, name == "baseline");
        std::fprintf(stderr, "kernels of %s: as plain loops\n", name.c_str());
    }
    check_index();
    check_readers();
    std::fprintf(stderr, "index, columns, ARPA: right\n");
}
