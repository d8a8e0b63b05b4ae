// The Python module of the native core. Each bind_* function is in the file of its subject.

#include <nanobind/nanobind.h>

#include <cstdlib>

#include "bind/bind.hpp"

NB_MODULE(_native, m) {
    m.doc() = "The native core of tagloom.";
    // At exit nanobind reports every object that is still alive as a leak. The bindings leak none
    // (tests/test_leaks.py). But a program that exits while a daemon thread uses a tagger, or after
    // gc.freeze(), keeps objects that Python never frees, and would print false reports. So reports
    // are for tests only.
    nanobind::set_leak_warnings(std::getenv("TAGLOOM_LEAK_WARNINGS") != nullptr);
    tagloom::bind_automata(m);
    tagloom::bind_candidates(m);
    tagloom::bind_chain_loss(m);
    tagloom::bind_dense(m);
    tagloom::bind_evaluation(m);
    tagloom::bind_features(m);
    tagloom::bind_items(m);
    tagloom::bind_kalman(m);
    tagloom::bind_network(m);
    tagloom::bind_ngrams(m);
    tagloom::bind_backoff(m);  // uses NGrams
    tagloom::bind_roles(m);
    tagloom::bind_samplers(m);
    tagloom::bind_scoring(m);
    tagloom::bind_subtags(m);
    tagloom::bind_decoding(m);  // uses Scorer, Subtags and Pruning
    tagloom::bind_sequences(m);
    tagloom::bind_small_chains(m);
    tagloom::bind_segments(m);
    tagloom::bind_selection(m);
    tagloom::bind_training(m);  // uses SegmentShape, Subtags and Pruning
    tagloom::bind_tree_parser(m);
    tagloom::bind_trees(m);
    tagloom::bind_trellis(m);
    tagloom::bind_vocabulary(m);
}
