#include "evaluate/squad_metrics.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

#include "data/text_pieces.hpp"
#include "data/unicode_tables.hpp"

namespace lathe {

namespace {

constexpr char32_t capital_sigma = 0x3A3;
constexpr char32_t final_sigma = 0x3C2;
constexpr char32_t dotted_capital_i = 0x130;
constexpr char32_t dot_above = 0x307;

using CodePoints = std::u32string;

/// Whether the capital sigma at `at` ends a word: a cased letter before it and none behind, case-ignorable ones between
/// not counted (Unicode, 3.13, Final_Sigma).
bool ends_word(const CodePoints& codes, std::size_t at) {
    std::size_t before = at;
    while (before > 0 && is_case_ignorable(codes[before - 1]))
        --before;
    if (before == 0 || !is_unicode_cased(codes[before - 1])) return false;
    const auto behind =
        std::find_if_not(codes.begin() + static_cast<std::ptrdiff_t>(at) + 1, codes.end(), is_case_ignorable);
    return behind == codes.end() || !is_unicode_cased(*behind);
}

/// Python's str.lower(): one code point for one, but for the two special cases that Unicode lists for all languages.
CodePoints lowered(const CodePoints& codes) {
    CodePoints out;
    for (std::size_t i = 0; i < codes.size(); ++i) {
        if (codes[i] == dotted_capital_i) {
            out.insert(out.end(), {U'i', dot_above});
        } else if (codes[i] == capital_sigma) {
            out.push_back(ends_word(codes, i) ? final_sigma : to_unicode_lower(codes[i]));
        } else {
            out.push_back(to_unicode_lower(codes[i]));
        }
    }
    return out;
}

bool is_ascii_punctuation(char32_t code) {
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') || (code >= '[' && code <= '`') ||
           (code >= '{' && code <= '~');
}

/// What \w matches.
bool is_word(char32_t code) { return code == '_' || is_unicode_alphanumeric(code); }

/// Length of an article that is a whole word at `at`, or 0.
std::size_t article_at(const CodePoints& codes, std::size_t at) {
    if (at > 0 && is_word(codes[at - 1])) return 0;
    for (const std::u32string_view article : {U"a", U"an", U"the"}) {
        const std::size_t end = at + article.size();
        if (end > codes.size() ||
            !std::equal(article.begin(), article.end(), codes.begin() + static_cast<std::ptrdiff_t>(at)))
            continue;
        if (end == codes.size() || !is_word(codes[end])) return article.size();
    }
    return 0;
}

std::vector<std::string> words_of(std::string_view normalized) {
    std::vector<std::string> words;
    for (std::size_t at = 0; at < normalized.size();) {
        const std::size_t end = std::min(normalized.find(' ', at), normalized.size());
        if (end > at) words.emplace_back(normalized.substr(at, end - at));
        at = end + 1;
    }
    return words;
}

double f1_of(const std::vector<std::string>& prediction, const std::vector<std::string>& answer) {
    std::map<std::string, std::size_t> left;
    for (const std::string& word : answer)
        ++left[word];
    std::size_t same = 0;
    for (const std::string& word : prediction) {
        const auto found = left.find(word);
        if (found == left.end() || found->second == 0) continue;
        --found->second;
        ++same;
    }
    if (same == 0) return 0;
    const double precision = static_cast<double>(same) / static_cast<double>(prediction.size());
    const double recall = static_cast<double>(same) / static_cast<double>(answer.size());
    return 2 * precision * recall / (precision + recall);
}

AnswerScore best_of(std::string_view prediction, const std::vector<std::string>& answers, bool version2) {
    const std::string predicted = normalize_answer(prediction);
    const auto predicted_words = words_of(predicted);
    AnswerScore best;
    for (const std::string& answer : answers) {
        const std::string wanted = normalize_answer(answer);
        const auto words = words_of(wanted);
        const bool same = predicted == wanted;
        best.exact = std::max(best.exact, same ? 1.0 : 0.0);
        const bool empty = version2 && (words.empty() || predicted_words.empty());
        best.f1 = std::max(best.f1, empty ? (same ? 1.0 : 0.0) : f1_of(predicted_words, words));
    }
    return best;
}

} // namespace

std::string normalize_answer(std::string_view answer) {
    CodePoints codes = lowered(code_points(answer));
    std::erase_if(codes, is_ascii_punctuation);
    std::string out;
    bool space = false;
    for (std::size_t i = 0; i < codes.size();) {
        const std::size_t article = article_at(codes, i);
        if (article > 0 || is_unicode_space(codes[i])) {
            space = true;
            i += std::max<std::size_t>(1, article);
            continue;
        }
        if (space && !out.empty()) out.push_back(' ');
        space = false;
        append_utf8(codes[i], out);
        ++i;
    }
    return out;
}

AnswerScore score_answer_v1(std::string_view prediction, const std::vector<std::string>& answers) {
    return best_of(prediction, answers, false);
}

AnswerScore score_answer_v2(std::string_view prediction, const std::vector<std::string>& answers) {
    std::vector<std::string> counted = answers;
    std::erase_if(counted, [](const std::string& answer) { return normalize_answer(answer).empty(); });
    if (counted.empty()) counted.emplace_back();
    return best_of(prediction, counted, true);
}

bool has_answer(const std::vector<std::string>& answers) { return !answers.empty(); }

} // namespace lathe
