// The Python face of the native core. Each bind_* function lives in the file of its subject.

#include <nanobind/nanobind.h>

#include "bind/bind.hpp"

NB_MODULE(_native, m) {
    m.doc() = "The native core of tagloom.";
    // A program may end while it has taggers: that is no leak, and nothing to tell its user.
    nanobind::set_leak_warnings(false);
    tagloom::bind_evaluation(m);
    tagloom::bind_features(m);
    tagloom::bind_items(m);
    tagloom::bind_ngrams(m);
    tagloom::bind_sequences(m);
    tagloom::bind_training(m);
    tagloom::bind_trellis(m);
    tagloom::bind_vocabulary(m);
}
