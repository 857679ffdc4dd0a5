#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lathe {

/// SQuAD's normalisation of an answer: lower case, ASCII punctuation removed, the words a, an, the removed, white space
/// single. As Python does it (Rajpurkar et al., "SQuAD: 100,000+ questions", 2016, and its evaluate-v1.1.py).
std::string normalize_answer(std::string_view answer);

/// One prediction against the answers that people gave, the best of them counting. 0..1.
struct AnswerScore {
    double exact = 0;
    double f1 = 0; ///< of the bags of words: 2 p r / (p + r)
};

/// As evaluate-v1.1.py; without answers, at which that script stops, 0. An answer without words left has an F1 of 0.
AnswerScore score_answer_v1(std::string_view prediction, const std::vector<std::string>& answers);
/// As evaluate-v2.0.py: answers without words left do not count, no answers mean that "" is right, and an empty side
/// has F1 1 where the other is empty too, else 0.
AnswerScore score_answer_v2(std::string_view prediction, const std::vector<std::string>& answers);
/// Whether evaluate-v2.0.py counts the question among those with an answer.
bool has_answer(const std::vector<std::string>& answers);

} // namespace lathe
