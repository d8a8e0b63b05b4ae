// The functions that module.cpp calls, one per subject.
#pragma once

#include <nanobind/nanobind.h>

namespace tagloom {
void bind_automata(nanobind::module_& m);
void bind_backoff(nanobind::module_& m);
void bind_candidates(nanobind::module_& m);
void bind_chain_loss(nanobind::module_& m);
void bind_decoding(nanobind::module_& m);
void bind_dense(nanobind::module_& m);
void bind_evaluation(nanobind::module_& m);
void bind_features(nanobind::module_& m);
void bind_items(nanobind::module_& m);
void bind_kalman(nanobind::module_& m);
void bind_network(nanobind::module_& m);
void bind_ngrams(nanobind::module_& m);
void bind_roles(nanobind::module_& m);
void bind_samplers(nanobind::module_& m);
void bind_scoring(nanobind::module_& m);
void bind_segments(nanobind::module_& m);
void bind_selection(nanobind::module_& m);
void bind_sequences(nanobind::module_& m);
void bind_small_chains(nanobind::module_& m);
void bind_subtags(nanobind::module_& m);
void bind_training(nanobind::module_& m);
void bind_tree_parser(nanobind::module_& m);
void bind_trees(nanobind::module_& m);
void bind_trellis(nanobind::module_& m);
void bind_vocabulary(nanobind::module_& m);
}  // namespace tagloom
