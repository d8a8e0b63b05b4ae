// The functions behind the table of kernels.cpp, defined in the *_kernels.cpp files: each file is
// compiled once per instruction set, and what it defines lives in that set's namespace.
#pragma once

#include "core/kernels.hpp"

namespace tagloom::TL_ISA {

template <class In>
bool viterbi_lanes(const LaneViterbi<In>& task);
template <class In>
void viterbi_one(const OneViterbi<In>& task);
template <class In>
void best_one(const OneBest<In>& task);

template <class In, class R>
void sum_lanes(const LaneSum<In, R>& task);
template <class In>
void sum_one(const OneSum<In>& task);

template <class In, class R>
void sample_lanes(const LaneSample<In, R>& task);
template <class In>
void sample_one(const OneSample<In>& task);

template <class In>
void entropy_lanes(const LaneEntropy<In>& task);
template <class In>
void entropy_one(const OneEntropy<In>& task);

void viterbi_dominance(const DominanceViterbi& task);
void largest_differences(const LargestDifferences& task);

}  // namespace tagloom::TL_ISA
