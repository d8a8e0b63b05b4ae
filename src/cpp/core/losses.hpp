// What scaled probabilities lose to underflow, and the proof that the loss is negligible.
//
// exp returns a true zero below e^-708, and a product below 2^-1074 vanishes. Where such numbers
// occur, alpha[t, s] is too small by at most delta[t, s], with the symbols of the forward pass:
//
//   delta[t, g*Y + c] = row[t, c] * sum_a delta[t-1, a*G + g] * P[g, a, c] + added[t]
//   added[t]          = 8 Y gone + 2 (Y scale[t-1] + 1) least
//                       + 3 Y gone scale[t-1] max_s delta[t-1, s]
//
// The total z = sum_s alpha[T-1, s] * stop[s] is proven if sum_s delta[T-1, s] * stop[s] is below a
// tolerated share of it. The marginals are then proven too, as each is a part of the total. While
// all reachable numbers are at least `tiny`, nothing is lost: the product of three is a normal
// number. From the first smaller one on, delta is bounded in one of two ways:
//
//   one bound for all states   max_s delta[t, s] <= max_s delta[t-1, s] * max_c row[t, c] * sums[c]
//                              + added[t], with sums[c] = max_g sum_a P[g, a, c]: almost free, but
//                              too large after some hundred positions;
//   one bound for each state   the recursion itself, a second vector-times-matrix step.
//
// The forward pass uses the first, and repeats itself with the second if that proves too little. A
// sequence that neither proves is left to log space.
//
// The backward pass needs no such bound: sum_s alpha[t, s] * beta[t, s] equals the total at every
// position. Underflow only makes beta smaller, so a loss that matters shows in that sum; numbers
// rounded up by underflow do not, but they are below `least`, far less than `least_total`.
#pragma once

#include <cstdint>

namespace tagloom {
namespace {

// Nothing is lost while all numbers are at least this.
constexpr double tiny = 1e-100, log_tiny = -230.0;
// Upper bounds of what exp turns into a true zero, and of what rounding changes a product by.
constexpr double gone = 4e-308, least = 0x1p-1074;
// The unit of delta, which would itself underflow otherwise.
constexpr double loss_unit = 0x1p-900;
// Shares of the total: what the forward pass may lose, and how far the sum of a position may be
// off.
constexpr double tolerated = 1e-12, tolerated_at_position = 1e-11;
// Limits of the backward pass: the sum of a position, and what alpha is multiplied with.
constexpr double least_total = 1e-290, greatest_factor = 1e300;

// added[t], in units; V is a double or a vector of them.
template <class V>
inline V newly_lost(int64_t Y, V scale_before, V largest_before) {
    const double y = static_cast<double>(Y);
    return 8 * y * (gone / loss_unit) + 2 * (y * scale_before + 1) * (least / loss_unit) +
           3 * y * gone * scale_before * largest_before;
}

// Whether a total z is proven. The largest alpha and the largest delta at the end bound what the
// probabilities in stop lose.
inline bool is_proven(double z, double lost, int64_t S, double largest_alpha,
                      double largest_delta) {
    const double s = static_cast<double>(S);
    lost += s * ((largest_alpha * gone + least) / loss_unit + largest_delta * gone);
    return lost * loss_unit <=
           tolerated / 2 * z;  // half of it for rounding errors of this computation
}

}  // namespace
}  // namespace tagloom
