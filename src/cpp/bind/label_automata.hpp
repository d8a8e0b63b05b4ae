// Automata over labels, as Python passes them: checked and copied.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "bind/arrays.hpp"
#include "core/selection.hpp"

namespace tagloom {

// Next states [states, labels], and whether each state is final [states].
using AutomatonArrays = std::pair<Array<const int32_t, 2>, Array<const bool, 1>>;

inline std::vector<LabelAutomaton> compile_automata(const std::vector<AutomatonArrays>& automata,
                                                    int64_t labels) {
    std::vector<LabelAutomaton> compiled;
    for (const auto& [next, is_final] : automata) {
        const int64_t states = next.shape(0);
        require(
            states > 0 && int64_t(next.shape(1)) == labels && int64_t(is_final.shape(0)) == states,
            "an automaton must be [states, labels] and [states]");
        LabelAutomaton one{states, {}, {}};
        one.next.assign(next.data(), next.data() + next.size());
        one.is_final.assign(is_final.data(), is_final.data() + states);
        for (const int32_t to : one.next)
            require(to >= -1 && to < states, "an automaton leads to a missing state");
        compiled.push_back(std::move(one));
    }
    return compiled;
}

}  // namespace tagloom
