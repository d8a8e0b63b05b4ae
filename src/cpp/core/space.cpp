#include "core/space.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "core/automaton.hpp"

namespace tagloom {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

bool below(const std::vector<int32_t>& ids, int64_t n) {
    return std::all_of(ids.begin(), ids.end(), [&](int32_t id) { return id >= 0 && id < n; });
}

bool is_rising(const std::vector<int64_t>& ptr, size_t rows, size_t total) {
    return ptr.size() == rows + 1 && ptr.front() == 0 && ptr.back() == int64_t(total) &&
           std::is_sorted(ptr.begin(), ptr.end());
}

// The number of keys below each of 0 .. n: the row pointers of a CSR index.
std::vector<int64_t> row_starts(const std::vector<int32_t>& keys, int64_t n) {
    std::vector<int64_t> starts(n + 1, 0);
    for (int32_t key : keys) ++starts[key + 1];
    for (int64_t i = 0; i < n; ++i) starts[i + 1] += starts[i];
    return starts;
}

}  // namespace

Space Space::first_order(int64_t Y) {
    Space space;
    space.Y = Y;
    space.levels = 1;
    for (int32_t y = 0; y < Y; ++y) {
        space.label.push_back(y);
        for (int32_t y_prev = 0; y_prev < Y; ++y_prev) {
            space.src.push_back(y_prev);
            space.dst.push_back(y);
        }
    }
    space.is_initial.assign(Y, 1);
    space.is_final.assign(Y, 1);
    space.tie_ptr.assign(Y * Y + 1, 0);
    space.start_tie_ptr.assign(Y + 1, 0);
    space.index();
    return space;
}

void Space::index() {
    const int64_t S = states(), M = transitions();
    require(Y >= 1 && S >= 1 && M <= std::numeric_limits<int32_t>::max(),
            "there must be at least one label and one state");
    require(below(label, Y) && below(src, S) && below(dst, S) && dst.size() == src.size(),
            "a state or label is out of range");
    require(std::is_sorted(dst.begin(), dst.end()), "transitions must be sorted by dst");
    require(int64_t(is_initial.size()) == S && int64_t(is_final.size()) == S,
            "initial and final must have one flag per state");
    require(is_rising(tie_ptr, M, ties.size()) && below(ties, K) &&
                is_rising(start_tie_ptr, S, start_ties.size()) && below(start_ties, K),
            "a tied weight is out of range");
    into = row_starts(dst, S);
    out_of = row_starts(src, S);
    by_src.resize(M);
    std::vector<int64_t> next(out_of.begin(), out_of.end() - 1);
    for (int64_t m = 0; m < M; ++m) by_src[next[src[m]]++] = m;
    pair.resize(M);
    transition_of.assign(S * Y, -1);
    first_state.assign(Y, -1);
    for (int64_t m = 0; m < M; ++m) {
        pair[m] = static_cast<int32_t>(label[src[m]] * Y + label[dst[m]]);
        int32_t& transition = transition_of[src[m] * Y + label[dst[m]]];
        require(transition < 0, "a state must have at most one transition per label");
        transition = static_cast<int32_t>(m);
    }
    for (int64_t s = 0; s < S; ++s)
        if (is_initial[s]) first_state[label[s]] = static_cast<int32_t>(s);
}

void Space::index_dense() {
    dense.clear();
    if (levels == 0) return;
    G = 1;
    for (int64_t k = 1; k < levels; ++k) {
        G *= Y;
        require(G <= transitions(), "the space has too few transitions for its order");
    }
    dense.reserve(levels * G * Y * Y);
    std::vector<int32_t> history(levels);                 // h_1 .. h_k, the newest last
    for (int64_t length = 1; length <= levels; ++length)  // of the history at this level
        for (int64_t j = 0; j < G * Y; ++j) {             // entry [h_2 .. h_k, h_1]
            history[0] = static_cast<int32_t>(j % Y);
            for (int64_t h = levels - 1, rest = j / Y; h > 0; --h, rest /= Y)
                history[h] = static_cast<int32_t>(rest % Y);
            int64_t s = first_state[history[levels - length]];
            for (int64_t h = levels - length + 1; h < levels && s >= 0; ++h) {
                const int64_t m = transition_of[s * Y + history[h]];
                s = m < 0 ? -1 : dst[m];
            }
            for (int64_t y = 0; y < Y; ++y) {
                require(s >= 0 && transition_of[s * Y + y] >= 0,
                        "a space with an order must have a state for every history");
                dense.push_back(transition_of[s * Y + y]);
            }
        }
}

void Space::score(const double* tail, bool boundaries, Automaton& scored) const {
    const double *start = tail + Y * Y, *stop = start + Y, *tied = tail + ties_at(boundaries);
    for (int64_t m = 0; m < transitions(); ++m) scored.score[m] = transition_score(tail, tied, m);
    for (int64_t s = 0; s < states(); ++s) {
        const int32_t y = label[s];
        scored.start[s] = (is_initial[s] ? 0.0 : kMinusInf) + (boundaries ? start[y] : 0.0);
        scored.stop[s] = (is_final[s] ? 0.0 : kMinusInf) + (boundaries ? stop[y] : 0.0);
        for (int64_t j = start_tie_ptr[s]; j < start_tie_ptr[s + 1]; ++j)
            scored.start[s] += tied[start_ties[j]];
    }
}

void Space::spread(const double* expected, const double* start, const double* stop, bool boundaries,
                   double* counts) const {
    for (int64_t m = 0; m < transitions(); ++m)
        each_of_transition(m, boundaries, [&](int64_t j) { counts[j] += expected[m]; });
    for (int64_t s = 0; s < states(); ++s) {
        each_of_start(s, boundaries, [&](int64_t j) { counts[j] += start[s]; });
        each_of_stop(s, boundaries, [&](int64_t j) { counts[j] += stop[s]; });
    }
}

void Space::spread_dense(double* transitions, bool boundaries, double* counts) const {
    for (size_t j = 0; j < dense.size(); ++j) {
        if (transitions[j] == 0) continue;
        each_of_transition(dense[j], boundaries, [&](int64_t w) { counts[w] += transitions[j]; });
        transitions[j] = 0;
    }
}

}  // namespace tagloom
