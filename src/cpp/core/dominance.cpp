#include "core/dominance.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/batch_plan.hpp"
#include "core/dense_transitions.hpp"
#include "core/dispatch.hpp"

namespace tagloom {
namespace {

constexpr int64_t kLongest = 256;       // beyond, rounding makes too many paths unsure
constexpr int64_t kEnoughTokens = 256;  // to see how many labels remain
constexpr int64_t kFewShare = 4;        // worth it while at most Y / kFewShare remain
constexpr int64_t kAtOnce = 32;         // sequences per call of the kernel
constexpr int64_t kAlign = 16;          // floats in the widest vector

}  // namespace

std::unique_ptr<const Dominance> Dominance::make(int64_t Y, const double* trans,
                                                 const double* start, const double* stop) {
    if (Y < kLeast || Y > kMost) return nullptr;
    const auto is_finite = [](double x) { return std::isfinite(x); };
    if (!std::all_of(trans, trans + Y * Y, is_finite) ||
        !std::all_of(start, start + Y, is_finite) || !std::all_of(stop, stop + Y, is_finite)) {
        return nullptr;
    }
    std::unique_ptr<Dominance> made(new Dominance);
    const int64_t stride = round_up(Y, kAlign);
    made->Y_ = Y;
    made->stride_ = stride;
    const auto padded = [&](const double* rows, int64_t n) {
        std::vector<float> out(n * stride, -std::numeric_limits<float>::infinity());
        for (int64_t i = 0; i < n; ++i) std::copy_n(rows + i * Y, Y, out.begin() + i * stride);
        return out;
    };
    made->trans_ = padded(trans, Y);
    made->into_ = padded(transposed(trans, 1, Y).data(), Y);
    made->start_ = padded(start, 1);
    made->stop_ = padded(stop, 1);
    for (const auto& [scores, n] : {std::pair{trans, Y * Y}, {start, Y}, {stop, Y}}) {
        for (int64_t i = 0; i < n; ++i)
            made->largest_ = std::max(made->largest_, std::abs(scores[i]));
    }

    // Rows a: the labels, the start, the beginning; each sum is over both directions.
    std::vector<double> lead(Y * Y, 0.0), rows((Y + 2) * stride, 0.0), most(stride);
    const auto add = [&](const double* ends, auto row_of) {
        for (int64_t a = 0; a < Y; ++a)
            for (int64_t y = 0; y < Y; ++y) rows[a * stride + y] = row_of(a, y);
        std::copy_n(ends, Y, rows.begin() + Y * stride);
        for (int64_t d = 0; d < Y; ++d) {
            kernels().largest_differences({rows.data(), Y + 2, stride, d, most.data()});
            for (int64_t y = 0; y < Y; ++y) lead[d * Y + y] += most[y];
        }
    };
    add(start, [&](int64_t a, int64_t y) { return trans[a * Y + y]; });
    add(stop, [&](int64_t c, int64_t y) { return trans[y * Y + c]; });
    made->lead_ = padded(lead.data(), Y);
    return made;
}

bool Dominance::viterbi(const DenseBatch<float>& batch, int32_t* path) const {
    // Each label's best score is off by at most four roundings per position, of numbers up to
    // 4 * size: states differ by at most twice the largest emission and transition.
    const double size = batch.largest_emit + largest_, error = std::ldexp(size, -20);
    if (!(size < 1e30)) return false;
    std::vector<int64_t> numbers, first, length;  // of sequences that are not too long
    std::vector<int64_t> rest;
    for (int64_t i = 0; i < batch.N; ++i) {
        if (batch.length(i) == 0) continue;
        if (batch.length(i) > kLongest) {
            rest.push_back(i);
            continue;
        }
        numbers.push_back(i);
        first.push_back(batch.offsets[i]);
        length.push_back(batch.length(i));
    }
    DominanceViterbi task{};
    task.Y = Y_;
    task.trans = trans_.data();
    task.into = into_.data();
    task.lead = lead_.data();
    task.start = start_.data();
    task.stop = stop_.data();
    task.emit = batch.emit;
    task.longest = length.empty() ? 0 : *std::max_element(length.begin(), length.end());
    task.margin = task.error = static_cast<float>(2 * error);
    Pieces<float> scratch(2 * task.longest * stride_);
    task.rows = scratch.take(2 * task.longest * stride_);
    task.path = path;
    int64_t remaining = 0, tokens = 0;
    for (int64_t done = 0; done < std::ssize(numbers); done += task.n) {
        bool sure[kAtOnce];
        task.first = first.data() + done;
        task.length = length.data() + done;
        task.n = std::min(kAtOnce, std::ssize(numbers) - done);
        task.sure = sure;
        kernels().dominance(task);
        for (int64_t i = 0; i < task.n; ++i) {
            tokens += task.length[i];
            if (!sure[i]) rest.push_back(numbers[done + i]);
        }
        remaining += task.remaining;
        if (tokens >= kEnoughTokens && remaining * kFewShare > tokens * Y_) return false;
    }
    for (const int64_t i : rest) {
        DenseBatch<float> one = batch;
        one.offsets = batch.offsets + i;
        one.N = 1;
        tagloom::viterbi(one, path, nullptr);
    }
    return true;
}

}  // namespace tagloom
