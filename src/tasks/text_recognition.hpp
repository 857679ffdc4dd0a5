#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/counted.hpp"

namespace lathe {

struct TextRecognitionOptions {
    std::size_t output = 0;              ///< which of the model's: NxTxC, scores of C classes at T places
    std::vector<std::string> characters; ///< UTF-8, in the order of the classes, without CTC's blank
    bool blank_last = false;             ///< the blank is the last class; else the first
};

/// Text in pictures, read by CTC: at every place the class of greatest score, repetitions taken together, blanks left
/// out (greedy decoding; Graves et al. 2006). A class behind the characters is a space, as PaddleOCR has it. Answers
/// are texts of Unicode code points. Figures: "character_accuracy", 1 less the character error rate; that rate ("cer":
/// insertions, deletions and replacements to make the text right, to its length, over all samples together);
/// "line_accuracy", the share of texts that are right as a whole.
std::unique_ptr<CountedTask> make_text_recognition_task(TextRecognitionOptions options);

} // namespace lathe
