#include "core/chains.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace tagloom {
namespace {

Word ascii_word(std::string_view text) {
    Word word;
    word.text = text;
    word.hash = hash_part(text);
    word.points = static_cast<uint32_t>(text.size());
    return word;
}

Word lowered(const Word& word, Arena& arena, const Rewrite& lower) {
    return word.classes ? lower(word) : ascii_word(ascii_lower(word.text, arena));
}

Word capitalised(const Word& word, Arena& arena, const Rewrite& capitalise) {
    if (word.classes) return capitalise(word);
    const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
    if (word.text.empty() || !is_lower(word.text[0])) return word;
    char* text = arena.take<char>(word.text.size());
    std::copy(word.text.begin(), word.text.end(), text);
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
    return ascii_word({text, word.text.size()});
}

// The labels that a word has; most words have few.
struct Seen {
    std::size_t word, label;
    double count;
};
std::vector<Seen> labels_of(const std::vector<std::size_t>& words, const LabelCounts& labels) {
    std::vector<Seen> seen;
    for (const std::size_t w : words) {
        for (std::size_t y = 0; y < labels.Y; y++) {
            if (labels.row(w)[y] != 0) seen.push_back({w, y, labels.row(w)[y]});
        }
    }
    return seen;
}

}  // namespace

Alike find_alike(Words& words, LabelCounts labels, const bool* chosen, const Rewrite& lower,
                 const Rewrite& capitalise) {
    const std::size_t V = labels.V, Y = labels.Y;
    Alike found;
    found.group_of.assign(V, -1);
    Words groups(V);  // by how they are written without capitals
    for (std::size_t w = 0; w < V; w++) {
        if (!chosen[w]) continue;
        const Word small = lowered(words.all[w], words.arena, lower);
        int32_t group = groups.find(small.text, small.hash);
        if (group < 0) {
            group = groups.add(small);
            found.sums.resize(found.sums.size() + Y);
        }
        found.group_of[w] = group;
        double* sums = found.sums.data() + static_cast<std::size_t>(group) * Y;
        for (std::size_t y = 0; y < Y; y++) sums[y] += labels.row(w)[y];
    }
    for (std::size_t g = 0; g < groups.all.size(); g++) {
        const Word small = groups.all[g];
        for (const Word& variant : {small, capitalised(small, words.arena, capitalise)}) {
            const int32_t number = words.find(variant.text, variant.hash);
            const auto group = static_cast<int32_t>(g);
            if (number < 0) {
                words.add(variant);
                found.variant_of.push_back(group);
            } else if (static_cast<std::size_t>(number) >= V) {
                found.variant_of[static_cast<std::size_t>(number) - V] = group;
            }
        }
    }
    return found;
}

Chains make_chains(const Program& program, const Batch& batch, LabelCounts labels,
                   const bool* is_rare, const bool* is_known) {
    const std::size_t V = labels.V, Y = labels.Y;
    const std::size_t W = batch.columns[0].words.all.size(),
                      n_spellings = program.templates.size() - 1;
    Chains chains;
    Index& index = chains.index;
    std::vector<int32_t>& parent = chains.parent;
    std::vector<int32_t>& last = chains.spelling;  // of the chain so far
    last.assign(W, 0);
    // The number of what a template gives at a word; a new one continues the chain of the word.
    const auto add = [&](const Template& one, std::size_t w, uint64_t fingerprint) {
        const int32_t id = index.add(fingerprint, [&](std::string& out) {
            append_name(program, batch, one, static_cast<int64_t>(w), out);
        });
        if (static_cast<std::size_t>(id) == parent.size()) parent.push_back(last[w]);
        return id;
    };

    std::vector<std::size_t> rare, others;
    for (std::size_t w = 0; w < W; w++) (w < V && is_rare[w] ? rare : others).push_back(w);
    const std::vector<Seen> seen = labels_of(rare, labels);
    for (std::size_t k = 0; k < n_spellings; k++) {
        const Template& one = program.templates[k];
        const auto begin = static_cast<int32_t>(parent.size());
        for (const std::size_t w : rare) {
            const uint64_t h = fingerprint_at(batch, one, static_cast<int64_t>(w));
            if (h != kNone) last[w] = add(one, w, h);
        }
        chains.counts.resize(parent.size() * Y);
        for (const auto& [w, y, count] : seen) {
            if (last[w] >= begin) chains.counts[static_cast<std::size_t>(last[w]) * Y + y] += count;
        }
        chains.ends.push_back(static_cast<int64_t>(parent.size()));
    }
    for (const std::size_t w : others) {  // the longest spelling that rare words have too
        for (std::size_t k = n_spellings; k-- > 1 && last[w] == 0;) {
            const uint64_t h = fingerprint_at(batch, program.templates[k], static_cast<int64_t>(w));
            if (h != kNone) last[w] = std::max(index.table().find(h), 0);
        }
    }
    chains.words.assign(W, -1);
    const Template& whole = program.templates.back();
    for (std::size_t w = 0; w < W; w++) {
        if (w < V && !is_known[w]) continue;
        chains.words[w] = add(whole, w, fingerprint_at(batch, whole, static_cast<int64_t>(w)));
    }
    return chains;
}

}  // namespace tagloom
