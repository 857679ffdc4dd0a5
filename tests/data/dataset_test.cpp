#include "data/open_dataset.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/golden.hpp"
#include "data/npy.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

namespace fs = std::filesystem;
using test::golden;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

const InputSpec image_input{"input", DataType::float32, {-1, 3, 8, 8}};

Preprocess small_preprocess() {
    Preprocess preprocess;
    preprocess.resize = Preprocess::Size{8, 8};
    return preprocess;
}

void put_image(const fs::path& path, const char* picture = "rgb.png") {
    fs::create_directories(path.parent_path());
    fs::copy_file(golden(picture), path);
}

Result<std::unique_ptr<Dataset>> open_images(const fs::path& path, DatasetOptions options = {}) {
    return open_dataset(path, small_preprocess(), {image_input}, options);
}

struct Everything {
    std::vector<std::string> names;
    std::vector<std::int64_t> labels;
    std::vector<std::byte> bytes; ///< of the first input
};

Everything read_all(Dataset& dataset, std::size_t batch_size) {
    Everything all;
    for (;;) {
        auto batch = dataset.next(batch_size);
        EXPECT_TRUE(batch) << batch.error().describe();
        if (!batch || !*batch) return all;
        EXPECT_LE((*batch)->size(), batch_size);
        EXPECT_EQ((*batch)->inputs[0].shape[0], static_cast<std::int64_t>((*batch)->size()));
        all.names.insert(all.names.end(), (*batch)->names.begin(), (*batch)->names.end());
        all.labels.insert(all.labels.end(), (*batch)->labels.begin(), (*batch)->labels.end());
        all.bytes.insert(all.bytes.end(), (*batch)->inputs[0].bytes.begin(), (*batch)->inputs[0].bytes.end());
    }
}

TEST(ImageFolder, LabelList) {
    const TemporaryFolder folder;
    for (const char* name : {"b.png", "a.png", "c.png"})
        put_image(folder / "val" / name);
    ASSERT_TRUE(write_file(folder / "val/labels.csv", "class_index,file\n2,b.png\n0,a.png\n"));
    ASSERT_TRUE(write_file(folder / "classes.csv", "class_index,wnid,name\n0,n0,zero\n2,n2,two\n"));
    const auto dataset = open_images(folder / "val");
    ASSERT_TRUE(dataset) << dataset.error().describe();
    EXPECT_TRUE((*dataset)->has_labels());
    EXPECT_THAT((*dataset)->class_names(), ElementsAre("zero", "", "two"));
    const Everything all = read_all(**dataset, 5);
    EXPECT_THAT(all.names, ElementsAre("b.png", "a.png"));
    EXPECT_THAT(all.labels, ElementsAre(2, 0));
}

TEST(ImageFolder, ClassFoldersInOrderOfName) {
    const TemporaryFolder folder;
    for (const char* name : {"zebra/1.png", "ant/2.png", "ant/deep/0.png"})
        put_image(folder / name);
    const auto dataset = open_images(folder.path());
    ASSERT_TRUE(dataset) << dataset.error().describe();
    EXPECT_THAT((*dataset)->class_names(), ElementsAre("ant", "zebra"));
    const Everything all = read_all(**dataset, 2);
    EXPECT_THAT(all.names, ElementsAre("ant/2.png", "ant/deep/0.png", "zebra/1.png"));
    EXPECT_THAT(all.labels, ElementsAre(0, 0, 1));
}

/// A part of ImageNet's folders would get wrong labels if they were numbered by name.
TEST(ImageFolder, ClassFoldersKnownToClassesCsv) {
    const TemporaryFolder folder;
    put_image(folder / "train/n09/1.png");
    put_image(folder / "train/n05/1.png");
    ASSERT_TRUE(write_file(folder / "classes.csv", "class_index,wnid,name\n7,n05,five\n3,n09,nine\n"));
    const auto dataset = open_images(folder / "train/");
    ASSERT_TRUE(dataset) << dataset.error().describe();
    EXPECT_THAT(read_all(**dataset, 8).labels, ElementsAre(7, 3));
}

TEST(ImageFolder, UnlabelledFolderFileAndList) {
    const TemporaryFolder folder;
    put_image(folder / "b.png");
    put_image(folder / "a.jpg", "420.jpg");
    put_image(folder / ".hidden.png");
    ASSERT_TRUE(write_file(folder / "list.txt", "b.png\r\n\na.jpg\n"));
    struct Case {
        const char* path;
        std::vector<std::string> names;
    };
    for (const auto& [path, names] :
         {Case{"", {"a.jpg", "b.png"}}, Case{"list.txt", {"b.png", "a.jpg"}}, Case{"a.jpg", {"a.jpg"}}}) {
        const auto dataset = open_images(folder / path);
        ASSERT_TRUE(dataset) << dataset.error().describe();
        EXPECT_FALSE((*dataset)->has_labels());
        const Everything all = read_all(**dataset, 1);
        EXPECT_EQ(all.names, names);
        EXPECT_EQ(all.labels, std::vector<std::int64_t>(names.size(), -1));
    }
}

TEST(ImageFolder, ContentDoesNotDependOnThreadsOrBatches) {
    const TemporaryFolder folder;
    const std::vector<const char*> pictures{"420.jpg", "rgb.png", "grey.jpg", "palette.png", "rgba16.png", "444.jpg"};
    for (std::size_t i = 0; i < 150; ++i) { // more than are read ahead
        const std::string picture = pictures[i % pictures.size()];
        put_image(folder / (std::to_string(1000 + i) + picture), picture.c_str());
    }
    const auto reference = open_images(folder.path(), {0, 1, {}});
    ASSERT_TRUE(reference);
    const Everything expected = read_all(**reference, 1);
    EXPECT_EQ(expected.names.size(), 150U);
    EXPECT_TRUE(std::ranges::is_sorted(expected.names));
    for (const std::size_t threads : {2U, 7U}) {
        for (const std::size_t batch : {7U, 200U}) {
            const auto dataset = open_images(folder.path(), {0, threads, {}});
            ASSERT_TRUE(dataset);
            for (int pass = 0; pass < 2; ++pass) {
                const Everything all = read_all(**dataset, batch);
                EXPECT_EQ(all.names, expected.names);
                EXPECT_EQ(all.bytes, expected.bytes);
                (*dataset)->rewind();
            }
            ASSERT_TRUE((*dataset)->next(3)); // destroyed with samples in the queue
        }
    }
}

TEST(ImageFolder, ADamagedFileIsNamedWhenItsTurnComes) {
    const TemporaryFolder folder;
    put_image(folder / "a.png");
    ASSERT_TRUE(write_file(folder / "b.jpg", "\xFF\xD8\xFF\xE0 nothing"));
    put_image(folder / "c.png");
    const auto dataset = open_images(folder.path());
    ASSERT_TRUE(dataset);
    ASSERT_TRUE((*dataset)->next(1));
    const auto bad = (*dataset)->next(1);
    ASSERT_FALSE(bad);
    EXPECT_THAT(bad.error().where, HasSubstr("b.jpg"));
    const auto after = (*dataset)->next(1);
    ASSERT_TRUE(after);
    EXPECT_THAT((*after)->names, ElementsAre("c.png"));
}

TEST(ImageFolder, DigestFollowsContentPreprocessingAndSubset) {
    const TemporaryFolder folder;
    put_image(folder / "a.png");
    put_image(folder / "b.png");
    put_image(folder / "c.png");
    const auto digest = [&](const Preprocess& preprocess, std::size_t samples = 0) {
        const auto dataset = open_dataset(folder.path(), preprocess, {image_input}, {samples, 0, {}});
        EXPECT_TRUE(dataset);
        const auto text = (*dataset)->digest();
        EXPECT_TRUE(text);
        return *text;
    };
    const std::string first = digest(small_preprocess());
    EXPECT_EQ(digest(small_preprocess()), first);
    std::set<std::string> all{first, digest(small_preprocess(), 2)};
    Preprocess other = small_preprocess();
    other.mean[1] = 3;
    all.insert(digest(other));
    fs::rename(folder / "c.png", folder / "d.png");
    all.insert(digest(small_preprocess()));
    fs::remove(folder / "d.png");
    put_image(folder / "d.png", "grey.png");
    all.insert(digest(small_preprocess()));
    EXPECT_EQ(all.size(), 5U);
}

TEST(ImageFolder, OtherInputTypes) {
    const TemporaryFolder folder;
    put_image(folder / "a.png");
    for (const DataType type : {DataType::uint8, DataType::float16, DataType::float64}) {
        const auto dataset = open_dataset(folder.path(), small_preprocess(), {{"x", type, {1, 3, 8, 8}}}, {});
        ASSERT_TRUE(dataset) << dataset.error().describe();
        const auto batch = (*dataset)->next(1);
        ASSERT_TRUE(batch);
        EXPECT_EQ((*batch)->inputs[0].type, type);
        EXPECT_EQ((*batch)->inputs[0].bytes.size(), 192 * bit_width(type) / 8);
    }
}

TEST(OpenDataset, ErrorsSayWhatToDo) {
    const TemporaryFolder folder;
    put_image(folder / "images/a.png");
    fs::create_directories(folder / "empty");
    put_image(folder / "bad_labels/a.png");
    ASSERT_TRUE(write_file(folder / "bad_labels/labels.csv", "file,class_index\na.png,minus\n"));
    ASSERT_TRUE(write_file(folder / "two.csv", "name,label\nx,1\n"));
    const InputSpec tokens{"ids", DataType::int64, {-1, 128}};
    struct Case {
        const char* path;
        std::optional<Preprocess> preprocess;
        std::vector<InputSpec> inputs;
        ErrorCode code;
        const char* said;
    };
    for (const auto& [path, preprocess, inputs, code, said] : std::vector<Case>{
             {"none", small_preprocess(), {image_input}, ErrorCode::not_found, "check the path"},
             {"none.npz", small_preprocess(), {image_input}, ErrorCode::not_found, "none.npz"},
             {"empty", small_preprocess(), {image_input}, ErrorCode::not_found, "labels.csv"},
             {"images", {}, {image_input}, ErrorCode::invalid_argument, "--preprocess"},
             {"images", small_preprocess(), {{"x", DataType::float32, {1, 3, 9, 8}}}, ErrorCode::mismatch, "1x3x9x8"},
             {"images", small_preprocess(), {tokens}, ErrorCode::mismatch, "int64"},
             {"images", small_preprocess(), {image_input, tokens}, ErrorCode::invalid_argument, ".npz"},
             {"images", small_preprocess(), {}, ErrorCode::invalid_argument, "no inputs"},
             {"bad_labels", small_preprocess(), {image_input}, ErrorCode::parse_error, "\"minus\""},
             {"two.csv", small_preprocess(), {image_input}, ErrorCode::parse_error, "column file"},
         }) {
        const auto dataset = open_dataset(folder / path, preprocess, inputs, {});
        ASSERT_FALSE(dataset) << path;
        EXPECT_EQ(dataset.error().code, code) << dataset.error().describe();
        EXPECT_THAT(dataset.error().describe(), HasSubstr(said));
    }
}

HostTensor counting(const std::string& name, DataType type, Shape shape) {
    HostTensor tensor(name, type, std::move(shape));
    if (type == DataType::float32) {
        for (std::size_t i = 0; i < tensor.as<float>().size(); ++i)
            tensor.as<float>()[i] = static_cast<float>(i);
    } else if (type == DataType::int64) {
        for (std::size_t i = 0; i < tensor.as<std::int64_t>().size(); ++i)
            tensor.as<std::int64_t>()[i] = static_cast<std::int64_t>(i);
    } else {
        for (std::size_t i = 0; i < tensor.bytes.size(); ++i)
            tensor.bytes[i] = static_cast<std::byte>(i);
    }
    return tensor;
}

TEST(Arrays, NpyStreamsSamplesInTheInputsType) {
    const TemporaryFolder folder;
    HostTensor array = counting("x", DataType::int64, {5, 2, 2});
    ASSERT_TRUE(write_npy(folder / "x.npy", array.view()));
    const auto dataset = open_dataset(folder / "x.npy", {}, {{"in", DataType::float32, {-1, 2, 2}}}, {3, 0, {}});
    ASSERT_TRUE(dataset) << dataset.error().describe();
    EXPECT_EQ((*dataset)->size(), 3U);
    const auto batch = (*dataset)->next(10);
    ASSERT_TRUE(batch);
    EXPECT_THAT((*batch)->names, ElementsAre("0", "1", "3"));
    EXPECT_EQ((*batch)->inputs[0].as<float>()[8], 12.0F);
    const auto one = open_dataset(folder / "x.npy", {}, {{"in", DataType::int64, {1, 5, 2, 2}}}, {});
    ASSERT_TRUE(one) << "an array without the sample axis is one sample";
    EXPECT_EQ((*one)->size(), 1U);
    const auto wrong = open_dataset(folder / "x.npy", {}, {{"in", DataType::int64, {1, 3, 2}}}, {});
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().code, ErrorCode::mismatch);
}

TEST(Arrays, NpyPixelsArePreprocessed) {
    const TemporaryFolder folder;
    HostTensor pixels = counting("x", DataType::uint8, {2, 4, 4, 3});
    ASSERT_TRUE(write_npy(folder / "x.npy", pixels.view()));
    Preprocess preprocess;
    preprocess.resize = Preprocess::Size{4, 4};
    preprocess.mean = {1, 1, 1};
    const auto dataset = open_dataset(folder / "x.npy", preprocess, {{"in", DataType::float32, {-1, 3, 4, 4}}}, {});
    ASSERT_TRUE(dataset) << dataset.error().describe();
    const auto batch = (*dataset)->next(2);
    ASSERT_TRUE(batch);
    EXPECT_EQ((*batch)->inputs[0].shape, (Shape{2, 3, 4, 4}));
    EXPECT_EQ((*batch)->inputs[0].as<float>()[1], 2.0F) << "pixel 1, red: value 3, less the mean";
}

TEST(Arrays, FolderOfNpyFiles) {
    const TemporaryFolder folder;
    for (const char* name : {"b.npy", "a.npy"}) {
        HostTensor array = counting("x", DataType::float32, {1, 4});
        ASSERT_TRUE(write_npy(folder / name, array.view()));
    }
    const InputSpec input{"in", DataType::float32, {-1, 4}};
    const auto dataset = open_dataset(folder.path(), {}, {input}, {});
    ASSERT_TRUE(dataset) << dataset.error().describe();
    EXPECT_THAT(read_all(**dataset, 8).names, ElementsAre("a.npy", "b.npy"));
    HostTensor odd = counting("x", DataType::float32, {5});
    ASSERT_TRUE(write_npy(folder / "c.npy", odd.view()));
    const auto mixed = open_dataset(folder.path(), {}, {input}, {});
    ASSERT_TRUE(mixed);
    const auto batch = (*mixed)->next(8);
    ASSERT_FALSE(batch);
    EXPECT_THAT(batch.error().where, HasSubstr("c.npy"));
}

TEST(Arrays, NpzByInputNameWithLabels) {
    const TemporaryFolder folder;
    HostTensor ids = counting("ids", DataType::int64, {4, 3});
    HostTensor mask = counting("mask", DataType::int64, {4, 3});
    HostTensor labels = counting("labels", DataType::int64, {4});
    ASSERT_TRUE(write_npz(folder / "d.npz", std::vector{mask.view(), labels.view(), ids.view()}));
    const std::vector<InputSpec> inputs{{"ids", DataType::int64, {-1, -1}}, {"mask", DataType::float32, {-1, 3}}};
    const auto dataset = open_dataset(folder / "d.npz", {}, inputs, {2, 0, {}});
    ASSERT_TRUE(dataset) << dataset.error().describe();
    const auto batch = (*dataset)->next(9);
    ASSERT_TRUE(batch);
    EXPECT_EQ((*batch)->inputs[0].name, "ids");
    EXPECT_EQ((*batch)->inputs[1].type, DataType::float32);
    EXPECT_THAT((*batch)->labels, ElementsAre(0, 2));
    const auto missing = open_dataset(folder / "d.npz", {},
                                      {{"ids", DataType::int64, {-1, 3}}, {"types", DataType::int64, {-1, 3}}}, {});
    ASSERT_FALSE(missing);
    EXPECT_THAT(missing.error().describe(), HasSubstr("mask, ids"));

    HostTensor short_mask = counting("mask", DataType::int64, {3, 3});
    const auto uneven = dataset_of_arrays({ids, short_mask}, {}, inputs, {});
    ASSERT_FALSE(uneven);
    EXPECT_EQ(uneven.error().code, ErrorCode::mismatch);
    EXPECT_FALSE(dataset_of_arrays({ids, mask}, {1, 2}, inputs, {}));
    EXPECT_TRUE(dataset_of_arrays({ids, mask}, {1, 2, 3, 4}, inputs, {}));
}

TEST(ChooseSamples, EvenlySpreadOrSeeded) {
    EXPECT_THAT(choose_samples(10, 4, {}), ElementsAre(0, 2, 5, 7));
    EXPECT_THAT(choose_samples(3, 0, {}), ElementsAre(0, 1, 2));
    EXPECT_THAT(choose_samples(3, 9, {}), ElementsAre(0, 1, 2));
    EXPECT_THAT(choose_samples(0, 9, {}), testing::IsEmpty());
    const auto chosen = choose_samples(1000, 100, 5);
    EXPECT_EQ(chosen.size(), 100U);
    EXPECT_TRUE(std::ranges::is_sorted(chosen));
    EXPECT_EQ(std::set<std::size_t>(chosen.begin(), chosen.end()).size(), 100U);
    EXPECT_EQ(choose_samples(1000, 100, 5), chosen);
    EXPECT_NE(choose_samples(1000, 100, 6), chosen);
}

// Flux's latents have a batch, the places of its pixels have none.
TEST(ArraysInMemory, WholeInputsThatDifferAlongTheirFirstAxesAreOneRequest) {
    HostTensor latents("latents", DataType::float32, {1, 4});
    HostTensor places("places", DataType::float32, {3, 2});
    for (std::size_t i = 0; i < 6; ++i)
        places.as<float>()[i] = static_cast<float>(i);
    const std::vector<InputSpec> inputs{{"latents", DataType::float32, {1, 4}, 1},
                                        {"places", DataType::float32, {3, 2}, 3}};
    auto dataset = dataset_of_arrays({latents, places}, {}, inputs, {});
    ASSERT_TRUE(dataset) << dataset.error().describe();
    EXPECT_EQ((*dataset)->size(), 1U);
    const auto batch = (*dataset)->next(1);
    ASSERT_TRUE(batch) << batch.error().describe();
    std::vector<HostTensor> given = (*batch)->inputs;
    ASSERT_EQ(given.size(), 2U);
    EXPECT_EQ(given[0].shape, (Shape{1, 4}));
    EXPECT_EQ(given[1].shape, (Shape{3, 2}));
    EXPECT_EQ(given[1].as<float>()[5], 5.0F);
    // Another number of places than the model has is no request.
    HostTensor fewer("places", DataType::float32, {2, 2});
    EXPECT_FALSE(dataset_of_arrays({latents, fewer}, {}, inputs, {}));
}

// A speech detector: windows of any number, a state whose first axis is its layers, the sampling rate.
TEST(ArraysInMemory, StatesAndNumbersBesideWhatHasABatch) {
    const std::vector<InputSpec> inputs{{"input", DataType::float32, {-1, 5}},
                                        {"state", DataType::float32, {2, -1, 3}, 2},
                                        {"rate", DataType::int64, {}}};
    const HostTensor windows("input", DataType::float32, {4, 5});
    const HostTensor state("state", DataType::float32, {2, 4, 3});
    HostTensor rate("rate", DataType::int64, {});
    rate.as<std::int64_t>()[0] = 16000;
    auto request = dataset_of_arrays({windows, state, rate}, {}, inputs, {});
    ASSERT_TRUE(request) << request.error().describe();
    EXPECT_EQ((*request)->size(), 1U);
    auto batch = (*request)->next(8);
    ASSERT_TRUE(batch) << batch.error().describe();
    EXPECT_EQ((*batch)->inputs[0].shape, (Shape{4, 5}));
    EXPECT_EQ((*batch)->inputs[1].shape, (Shape{2, 4, 3}));
    EXPECT_EQ((*batch)->inputs[2].shape, Shape{});
    // One axis more: samples, each with a state of its own and all with the one rate.
    const HostTensor states("state", DataType::float32, {4, 2, 1, 3});
    auto samples = dataset_of_arrays({windows, states, rate}, {}, inputs, {});
    ASSERT_TRUE(samples) << samples.error().describe();
    EXPECT_EQ((*samples)->size(), 4U);
    EXPECT_TRUE((*samples)->has_whole_samples());
    for (int i = 0; i < 4; ++i) {
        batch = (*samples)->next(8);
        ASSERT_TRUE(batch) << batch.error().describe();
        EXPECT_EQ((*batch)->inputs[1].shape, (Shape{2, 1, 3}));
        EXPECT_EQ((*batch)->inputs[2].as<std::int64_t>()[0], 16000);
    }
    EXPECT_TRUE((*samples)->digest());
    // Open axes are of one size, or an array is too short.
    const std::vector<InputSpec> open{
        {"a", DataType::float32, {-1, 5}}, {"b", DataType::float32, {-1, 5}}, {"state", DataType::float32, {2, 3}, 2}};
    const HostTensor a("a", DataType::float32, {4, 5});
    const HostTensor b("b", DataType::float32, {3, 5});
    const HostTensor fixed("state", DataType::float32, {2, 3});
    EXPECT_FALSE(dataset_of_arrays({a, b, fixed}, {}, open, {}));
    const std::vector<InputSpec> number{{"rate", DataType::int64, {}}};
    auto alone = dataset_of_arrays({rate}, {}, number, {});
    ASSERT_TRUE(alone) << alone.error().describe();
    EXPECT_EQ((*alone)->size(), 1U);
}

// A diffusion model: samples of a fixed batch beside a step that is the same for all of them.
TEST(ArraysInMemory, ANumberIsThatOfAllSamplesOfABatch) {
    const std::vector<InputSpec> inputs{{"sample", DataType::float32, {-1, 4}}, {"step", DataType::int64, {}}};
    HostTensor step("step", DataType::int64, {});
    step.as<std::int64_t>()[0] = 981;
    HostTensor sample("sample", DataType::float32, {4, 4});
    for (std::size_t i = 0; i < 16; ++i)
        sample.as<float>()[i] = static_cast<float>(i);
    auto data = dataset_of_arrays({sample, step}, {}, inputs, {});
    ASSERT_TRUE(data) << data.error().describe();
    EXPECT_EQ((*data)->size(), 4U);
    EXPECT_FALSE((*data)->has_whole_samples());
    for (const float first : {0.0F, 8.0F}) {
        auto batch = (*data)->next(2);
        ASSERT_TRUE(batch && *batch) << "batches of two";
        EXPECT_EQ((*batch)->inputs[0].shape, (Shape{2, 4}));
        EXPECT_EQ((*batch)->inputs[0].as<float>()[0], first);
        EXPECT_EQ((*batch)->inputs[1].shape, Shape{});
        EXPECT_EQ((*batch)->inputs[1].as<std::int64_t>()[0], 981);
    }
}

TEST(Scatter, EveryPrefixIsSpreadEvenly) {
    EXPECT_THAT(scatter(0), testing::IsEmpty());
    EXPECT_THAT(scatter(1), ElementsAre(0));
    for (const std::size_t count : {2, 3, 10, 37, 100, 256, 300, 1000}) {
        const std::vector<std::size_t> order = scatter(count);
        std::vector<std::size_t> first; // so far, ascending
        for (std::size_t n = 1; n <= count; ++n) {
            first.insert(std::ranges::upper_bound(first, order[n - 1]), order[n - 1]);
            std::set<std::size_t> gaps;
            for (std::size_t i = 1; i < n; ++i)
                gaps.insert(first[i] - first[i - 1]);
            ASSERT_FALSE(gaps.contains(0)) << "a sample twice among " << n << " of " << count;
            ASSERT_LE(gaps.size(), 3U) << n << " of " << count;
            const std::size_t widest = std::max(count - first.back(), gaps.empty() ? 0 : *gaps.rbegin());
            ASSERT_LE(static_cast<double>(widest * n), 2.0 * static_cast<double>(count)) << n << " of " << count;
        }
    }
}

TEST(Scatter, DoesNotFallInStepWithDataThatRepeat) {
    const std::vector<std::size_t> order = scatter(300);
    for (const std::size_t period : {2, 3, 4, 5, 7, 8}) {
        std::vector<std::size_t> counts(period);
        for (std::size_t i = 0; i < 32; ++i)
            ++counts[order[i] % period];
        EXPECT_GE(*std::ranges::min_element(counts), 16 / period) << "period " << period; // half of the fair share
    }
}

TEST(ChooseSamples, ScatteredAreTheSameInAnotherOrder) {
    DatasetOptions options;
    options.samples = 300;
    EXPECT_EQ(choose_samples(1000, options), choose_samples(1000, 300, {}));
    options.order = SampleOrder::scattered;
    std::vector<std::size_t> scattered = choose_samples(1000, options);
    EXPECT_FALSE(std::ranges::is_sorted(scattered));
    std::ranges::sort(scattered);
    EXPECT_EQ(scattered, choose_samples(1000, 300, {}));
}

TEST(ChooseSamples, PartsMakeTheWhole) {
    DatasetOptions options;
    options.samples = 30;
    options.order = SampleOrder::scattered;
    const std::vector<std::size_t> whole = choose_samples(100, options);
    std::vector<std::size_t> together;
    for (std::size_t first = 0; first < 35; first += 7) {
        options.part = SampleSpan{first, 7};
        const std::vector<std::size_t> part = choose_samples(100, options);
        EXPECT_EQ(part.size(), first == 28 ? 2U : 7U);
        together.insert(together.end(), part.begin(), part.end());
    }
    EXPECT_EQ(together, whole);
    options.part = SampleSpan{30, 1};
    EXPECT_THAT(choose_samples(100, options), testing::IsEmpty());
    options.part = SampleSpan{5, SIZE_MAX};
    EXPECT_EQ(choose_samples(100, options).size(), 25U);
}

TEST(Scatter, DataSortedByClassGiveAllClassesAtOnce) {
    // Ten classes of thirty, one after another: the first sixteen read hold them all.
    HostTensor arrays("x", DataType::float32, {300, 1});
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < 300; ++i)
        labels.push_back(i / 30);
    DatasetOptions options;
    options.order = SampleOrder::scattered;
    const auto dataset = dataset_of_arrays({arrays}, labels, {{"x", DataType::float32, {-1, 1}}}, options);
    ASSERT_TRUE(dataset) << dataset.error().describe();
    const auto batch = (*dataset)->next(16);
    ASSERT_TRUE(batch && *batch);
    EXPECT_EQ(std::set<std::int64_t>((*batch)->labels.begin(), (*batch)->labels.end()).size(), 10U);
}

} // namespace
} // namespace lathe
