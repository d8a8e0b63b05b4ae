#include "core/space.hpp"

#include <algorithm>
#include <stdexcept>

namespace tagloom {
namespace {

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

}  // namespace

Space Space::first_order(int64_t Y) {
    Space space;
    Automaton& a = space.automaton;
    a.Y = Y;
    for (int32_t y = 0; y < Y; ++y) {
        a.label.push_back(y);
        for (int32_t y_prev = 0; y_prev < Y; ++y_prev) {
            a.src.push_back(y_prev);
            a.dst.push_back(y);
        }
    }
    a.start.assign(Y, 0.0);
    a.stop.assign(Y, 0.0);
    space.tie_ptr.assign(Y * Y + 1, 0);
    space.start_tie_ptr.assign(Y + 1, 0);
    space.levels = 1;
    for (int64_t j = 0; j < Y * Y; ++j)
        space.dense.push_back(static_cast<int32_t>(j % Y * Y + j / Y));
    space.index();
    return space;
}

void Space::index() {
    Automaton& a = automaton;
    const int64_t S = a.states(), M = a.moves(), Y = a.Y;
    require(Y >= 1 && S >= 1 && M <= std::numeric_limits<int32_t>::max(), "no labels or no states");
    require(below(a.label, Y) && below(a.src, S) && below(a.dst, S) && a.dst.size() == a.src.size(),
            "a state or label is out of range");
    require(std::is_sorted(a.dst.begin(), a.dst.end()), "moves must be sorted by dst");
    require(int64_t(a.start.size()) == S && int64_t(a.stop.size()) == S,
            "starts and stops must be one per state");
    require(is_rising(tie_ptr, M, ties.size()) && below(ties, K) &&
                is_rising(start_tie_ptr, S, start_ties.size()) && below(start_ties, K),
            "a tied weight is out of range");
    require(levels == 0 || (int64_t(dense.size()) == levels * G * Y * Y && below(dense, M)),
            "the dense moves do not fit");
    a.score.assign(M, 0.0);
    a.index();
    pair.resize(M);
    move_of.assign(S * Y, -1);
    first_state.assign(Y, -1);
    for (int64_t m = 0; m < M; ++m) {
        pair[m] = static_cast<int32_t>(a.label[a.src[m]] * Y + a.label[a.dst[m]]);
        int32_t& move = move_of[a.src[m] * Y + a.label[a.dst[m]]];
        require(move < 0, "two moves read one label in one state");
        move = static_cast<int32_t>(m);
    }
    for (int64_t s = 0; s < S; ++s)
        if (a.start[s] == 0) first_state[a.label[s]] = static_cast<int32_t>(s);
}

void Space::score(const double* tail, bool boundaries, Automaton& scored) const {
    const double *start = tail + Y() * Y(), *stop = start + Y(), *tied = tail + ties_at(boundaries);
    for (int64_t m = 0; m < automaton.moves(); ++m) scored.score[m] = move_score(tail, tied, m);
    for (int64_t s = 0; s < automaton.states(); ++s) {
        const int32_t y = automaton.label[s];
        scored.start[s] = automaton.start[s] + (boundaries ? start[y] : 0.0);
        scored.stop[s] = automaton.stop[s] + (boundaries ? stop[y] : 0.0);
        for (int64_t j = start_tie_ptr[s]; j < start_tie_ptr[s + 1]; ++j)
            scored.start[s] += tied[start_ties[j]];
    }
}

void Space::spread(const double* moves, const double* start, const double* stop, bool boundaries,
                   double* counts) const {
    for (int64_t m = 0; m < automaton.moves(); ++m)
        each_of_move(m, boundaries, [&](int64_t j) { counts[j] += moves[m]; });
    for (int64_t s = 0; s < automaton.states(); ++s) {
        each_of_start(s, boundaries, [&](int64_t j) { counts[j] += start[s]; });
        each_of_stop(s, boundaries, [&](int64_t j) { counts[j] += stop[s]; });
    }
}

void Space::spread_dense(double* moves, bool boundaries, double* counts) const {
    for (size_t j = 0; j < dense.size(); ++j) {
        if (moves[j] == 0) continue;
        each_of_move(dense[j], boundaries, [&](int64_t w) { counts[w] += moves[j]; });
        moves[j] = 0;
    }
}

}  // namespace tagloom
