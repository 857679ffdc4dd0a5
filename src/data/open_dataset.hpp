#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/preprocess.hpp"
#include "data/tokenizer.hpp"
#include "lathe/result.hpp"
#include "lathe/sample_span.hpp"
#include "lathe/types.hpp"

namespace lathe {

/// What a model expects at one input. Axis 0 is the sample; negative dimensions are free.
struct InputSpec {
    std::string name;
    DataType type = DataType::float32;
    Shape shape;
    std::int64_t first = -1; ///< the size of axis 0 where that is fixed, though samples may be any number; else -1
};

/// What a text file's label column means. `scores`: how alike the two texts of a row are.
enum class TextLabels { none, classes, scores };

/// How texts become a model's inputs.
struct TextOptions {
    std::string columns;   ///< see parse_text_columns; empty: found by the header
    std::string tokenizer; ///< the model's metadata `lathe.tokenizer`; empty where it has none
    TokenizerFactory make_tokenizer;
    TextLabels labels = TextLabels::classes;
    std::size_t min_length = 0; ///< tokens: shorter batches are filled up
    std::size_t max_length = 0; ///< longer samples are cut; 0: by the tokenizer alone
    bool joint = false;         ///< pairs with scores are one sample each: the model itself says how alike they are
    std::vector<std::string> class_names{}; ///< of the model (`lathe.labels`): what labels in words mean
};

/// In which order the chosen samples are read.
enum class SampleOrder {
    ascending, ///< as they lie in the data
    scattered, ///< any number of first ones is spread evenly over all of them: see `scatter`
};

struct DatasetOptions {
    std::size_t samples = 0;           ///< take this many of all (see `choose_samples`); 0 takes all
    std::size_t threads = 0;           ///< decoding threads; 0 means available_cores()
    std::optional<std::uint64_t> seed; ///< choose samples at random with this seed instead of evenly spread
    TextOptions text{};
    SampleOrder order = SampleOrder::ascending;
    /// Of the chosen samples, in their order, these alone, as far as there are so many. Texts in pairs that are two
    /// samples each stay together.
    std::optional<SampleSpan> part{};
    std::size_t read_ahead = 0; ///< samples of files, at most; 0: some 64. For readers that may stop at any time
    /// Batches hold decoded pictures: somebody else preprocesses them. Errors: invalid_argument for arrays and texts.
    bool pictures = false;
};

/// Which samples `--samples wanted` takes of `total`, ascending. Without a seed sample i is number
/// floor(i * total / wanted), so that data sorted by class gives all classes; with one, a random choice without
/// repetition that depends on the seed alone. All if wanted is 0 or at least total.
std::vector<std::size_t> choose_samples(std::size_t total, std::size_t wanted, std::optional<std::uint64_t> seed);

/// The same for a dataset's options, in their order.
std::vector<std::size_t> choose_samples(std::size_t total, const DatasetOptions& options);

/// The numbers 0..count-1 so that the first n of them, for every n, are spread evenly: i comes by the fractional part
/// of i times the golden ratio (64 bits; Knuth's Fibonacci hashing). By the three-gap theorem the gaps between n of
/// them have at most three sizes, and none is wider than twice the mean: data sorted by class give all classes. Unlike
/// multiples of a stride they do not fall in step with data that repeat (every eighth of one camera).
std::vector<std::size_t> scatter(std::size_t count);

/// Samples for a model from a file or folder, told apart by content:
///  - a folder with labels.csv (header "file,class_index"): the listed images, labelled;
///  - a folder whose subfolders hold images: one class a subfolder, indexed in order of name; where a classes.csv in
///    the folder or its parent knows all subfolder names (wnid or name), its class_index counts instead;
///  - a folder of images (.jpg, .jpeg, .png): unlabelled, in order of name;
///  - one image; a .txt file with one image path a line, or a .csv file as labels.csv, paths relative to that file;
///  - a .npy file: axis 0 is the sample (or one sample, if its rank is one less); a folder of .npy files: one sample
///    each; a .npz file: one array a model input, by name, and optionally integer "labels". Of an input whose axis 0 is
///    no batch (a recurrent state, a number) a sample is the whole input: an array of one axis more; batches are then
///    of one sample. Arrays that are the model's inputs whole and differ along first axes of which one at least is
///    fixed are one request. A number for an input that is one is that of all samples;
///  - texts, for a model with a tokenizer: .tsv, .csv, .jsonl, .txt (see open_text_dataset).
/// Images need `preprocess`, whose size must fit the input. Arrays need it only to turn uint8 pixels (NxHxWx3) into
/// floats. Numbers are converted to the input's type where that keeps their meaning (any number to floating point,
/// integers to integers that hold them).
///
/// Images are decoded by `threads` threads a bounded distance ahead of the consumer; order and content do not depend on
/// the number of threads. A sample that cannot be read makes next() fail, naming the file, when its turn comes.
/// Errors: not_found, parse_error (labels, arrays), mismatch (shape, type, names), invalid_argument (no preprocessing).
Result<std::unique_ptr<Dataset>> open_dataset(const std::filesystem::path& path,
                                              const std::optional<Preprocess>& preprocess,
                                              const std::vector<InputSpec>& inputs, const DatasetOptions& options);

/// Whether open_dataset would read the samples there as pictures.
bool holds_pictures(const std::filesystem::path& path);
/// Whether it is an .npy or .npz file, by its name.
bool is_array_file(const std::filesystem::path& path);

/// A dataset over arrays in memory, one a model input by name (or one for the only input); axis 0 is the sample.
/// `labels` is empty or has one entry a sample.
Result<std::unique_ptr<Dataset>> dataset_of_arrays(std::vector<HostTensor> arrays, std::vector<std::int64_t> labels,
                                                   const std::vector<InputSpec>& inputs, const DatasetOptions& options);

} // namespace lathe
