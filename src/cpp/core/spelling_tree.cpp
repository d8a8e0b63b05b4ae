#include "core/spelling_tree.hpp"

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
    if (word.classes) return lower(word);
    const std::string_view text = ascii_lower(word.text, arena);
    return text.data() == word.text.data() ? word : ascii_word(text);
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

// Adds the label counts of words to all spellings on their paths, from the longest to the root.
std::vector<double> count_spellings(LabelCounts labels, const std::vector<std::size_t>& words,
                                    const std::vector<int32_t>& last,
                                    const std::vector<int32_t>& parent) {
    std::vector<double> counts(parent.size() * labels.Y);
    for (const std::size_t w : words) {
        for (std::size_t y = 0; y < labels.Y; y++) {
            const double count = labels.row(w)[y];
            if (count == 0) continue;  // most words have few labels
            auto a = static_cast<std::size_t>(last[w]);
            for (; a != 0; a = static_cast<std::size_t>(parent[a]))
                counts[a * labels.Y + y] += count;
            counts[y] += count;
        }
    }
    return counts;
}

// The fingerprint of a template at each word.
void find_fingerprints(const Batch& batch, const Template& one,
                       const std::vector<std::size_t>& words, std::vector<uint64_t>& fingerprints) {
    fingerprints.clear();
    for (const std::size_t w : words) {
        fingerprints.push_back(fingerprint_at(batch, one, static_cast<int64_t>(w)));
    }
}
constexpr std::size_t kAhead = 8;  // index probes prefetched ahead

}  // namespace

CaseGroups group_by_case(Words& words, LabelCounts labels, const bool* chosen, const Rewrite& lower,
                         const Rewrite& capitalise) {
    const std::size_t V = labels.V, Y = labels.Y;
    CaseGroups groups;
    groups.group_of.assign(V, -1);
    std::vector<int32_t> group_at(V, -1);  // [V + M] the group with this lower-case form, or -1
    std::vector<int32_t> lower_form;       // [groups] the lower-case word of each
    const auto add_variant = [&](const Word& word, std::size_t group) {
        groups.variant_of.push_back(static_cast<int32_t>(group));
        group_at.push_back(-1);
        return words.add(word);
    };
    for (std::size_t w = 0; w < V; w++) {
        if (!chosen[w]) continue;
        const Word lower_word = lowered(words.all[w], words.arena, lower);
        const bool is_lower = lower_word.text.data() == words.all[w].text.data();
        int32_t number =
            is_lower ? static_cast<int32_t>(w) : words.find(lower_word.text, lower_word.hash);
        if (number < 0) number = add_variant(lower_word, lower_form.size());
        int32_t& group = group_at[static_cast<std::size_t>(number)];
        if (group < 0) {
            group = static_cast<int32_t>(lower_form.size());
            lower_form.push_back(number);
            groups.sums.resize(lower_form.size() * Y);
        }
        groups.group_of[w] = group;
        double* sums = groups.sums.data() + static_cast<std::size_t>(group) * Y;
        for (std::size_t y = 0; y < Y; y++) sums[y] += labels.row(w)[y];
    }
    for (std::size_t g = 0; g < lower_form.size(); g++) {
        const Word& lower_word = words.all[static_cast<std::size_t>(lower_form[g])];
        const Word variant = capitalised(lower_word, words.arena, capitalise);
        const int32_t number = words.find(variant.text, variant.hash);
        if (number < 0) {
            add_variant(variant, g);
        } else if (static_cast<std::size_t>(number) >= V) {  // two groups share it: the later wins
            groups.variant_of[static_cast<std::size_t>(number) - V] = static_cast<int32_t>(g);
        }
    }
    return groups;
}

SpellingTree make_spelling_tree(const Program& program, const Batch& batch, LabelCounts labels,
                                const bool* is_rare, const bool* is_known) {
    const std::size_t V = labels.V;
    const std::size_t W = batch.columns[0].words.all.size(),
                      n_spellings = program.templates.size() - 1;
    SpellingTree tree;
    Index& index = tree.index;
    std::vector<int32_t>& parent = tree.parent;
    std::vector<int32_t>& last = tree.spelling;  // the deepest attribute of each path so far
    last.assign(W, 0);
    // The number of a template's attribute at a word; a new one extends the path of the word.
    const auto add = [&](const Template& one, std::size_t w, uint64_t fingerprint) {
        const int32_t id = index.add(fingerprint, [&](std::string& out) {
            append_name(program, batch, one, static_cast<int64_t>(w), out);
        });
        if (static_cast<std::size_t>(id) == parent.size()) parent.push_back(last[w]);
        return id;
    };

    std::vector<std::size_t> rare, others;
    for (std::size_t w = 0; w < W; w++) (w < V && is_rare[w] ? rare : others).push_back(w);
    std::vector<uint64_t> fingerprints;
    for (std::size_t k = 0; k < n_spellings; k++) {
        const Template& one = program.templates[k];
        find_fingerprints(batch, one, rare, fingerprints);
        for (std::size_t i = 0; i < rare.size(); i++) {
            if (i + kAhead < rare.size()) index.table().prefetch(fingerprints[i + kAhead]);
            if (fingerprints[i] != kNone) last[rare[i]] = add(one, rare[i], fingerprints[i]);
        }
        tree.ends.push_back(static_cast<int64_t>(parent.size()));
    }
    tree.counts = count_spellings(labels, rare, last, parent);

    // Other words are attached below the longest spelling that they share with a rare word.
    for (std::size_t k = n_spellings; k-- > 1;) {
        find_fingerprints(batch, program.templates[k], others, fingerprints);
        for (std::size_t i = 0; i < others.size(); i++) {
            if (i + kAhead < others.size()) index.table().prefetch(fingerprints[i + kAhead]);
            if (fingerprints[i] == kNone) continue;
            last[others[i]] = std::max(index.table().find(fingerprints[i]), 0);
        }
        std::erase_if(others, [&](std::size_t w) { return last[w] != 0; });
    }
    tree.words.assign(W, -1);
    std::vector<std::size_t> known;
    for (std::size_t w = 0; w < W; w++) {
        if (w >= V || is_known[w]) known.push_back(w);
    }
    const Template& whole = program.templates.back();
    auto next = static_cast<int32_t>(parent.size());
    find_fingerprints(batch, whole, known, fingerprints);
    for (std::size_t i = 0; i < known.size(); i++) {
        if (i + kAhead < known.size()) index.table().prefetch(fingerprints[i + kAhead]);
        const int32_t id = add(whole, known[i], fingerprints[i]);
        if (id == next) tree.words[known[i]] = next++;
    }
    return tree;
}

}  // namespace tagloom
