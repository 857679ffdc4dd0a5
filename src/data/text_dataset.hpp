#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/open_dataset.hpp"

namespace lathe {

/// A file that holds texts for a model with a tokenizer: .tsv, .csv, .jsonl or .txt.
bool is_text_file(const std::filesystem::path& path);

/// One model input (input_ids, attention_mask, token_type_ids or position_ids, int64 or int32) from tokens, filled up
/// on their tokenizer's side to at least `least` columns, ids with its padding. Positions count a row's tokens from 0.
HostTensor token_tensor(const InputSpec& input, const Tokens& tokens, std::size_t least, const Tokenizer& tokenizer);

/// Texts from a file (see TextTable), as tokens: every batch is filled up to its longest sample, its attention mask
/// says where. Where the tokenizer separates pairs, or they have scores and are not asked for as `joint`, a row of two
/// texts is two samples, one after the other; `samples` counts them so.
/// Errors: as TextTable and TokenizerFactory; unsupported (an input that tokens do not fill, no tokenizer),
/// invalid_argument (scores without pairs).
Result<std::unique_ptr<Dataset>> open_text_dataset(const std::filesystem::path& path,
                                                   const std::vector<InputSpec>& inputs, const DatasetOptions& options);

/// The same for texts in memory; `pairs` is empty or as long.
Result<std::unique_ptr<Dataset>> dataset_of_texts(std::vector<std::string> texts, std::vector<std::string> pairs,
                                                  const std::vector<InputSpec>& inputs, const DatasetOptions& options);

} // namespace lathe
