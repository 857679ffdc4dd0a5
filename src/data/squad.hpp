#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "lathe/result.hpp"

namespace lathe {

struct SquadQuestion {
    std::string id;
    std::string text;
    std::vector<std::string> answers; ///< as given; empty for a question without an answer
    std::size_t context = 0;          ///< index into SquadData::contexts
};

/// A file of the Stanford Question Answering Dataset.
struct SquadData {
    std::vector<std::string> contexts;
    std::vector<SquadQuestion> questions;
    bool version2 = false; ///< questions may have no answer (the file has "is_impossible")
    std::string digest;    ///< of the file
};

/// Reads SQuAD's JSON, 1.1 or 2.0: data[].paragraphs[].{context, qas[].{id, question, answers[].text,
/// is_impossible}}. Errors: not_found, io, parse_error naming the entry.
Result<SquadData> load_squad(const std::filesystem::path& path);

} // namespace lathe
