#include "mix/part_dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/open_dataset.hpp"

namespace lathe::test {
namespace {

using testing::ElementsAre;

std::unique_ptr<Dataset> numbers(std::int64_t count) {
    HostTensor tensor("x", DataType::float32, {count, 2});
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < count; ++i) {
        tensor.as<float>()[static_cast<std::size_t>(2 * i)] = static_cast<float>(i);
        labels.push_back(i % 3);
    }
    auto dataset = dataset_of_arrays({tensor}, labels, {{"x", DataType::float32, {-1, 2}}}, {});
    EXPECT_TRUE(dataset);
    return std::move(*dataset);
}

std::vector<int> first_numbers(Dataset& data, std::size_t count) {
    std::vector<int> seen;
    while (const auto batch = data.next(count).value()) {
        EXPECT_EQ(batch->inputs[0].shape[0], static_cast<std::int64_t>(batch->size()));
        for (std::size_t i = 0; i < batch->size(); ++i) {
            seen.push_back(static_cast<int>(batch->inputs[0].as<float>()[2 * i]));
            EXPECT_EQ(batch->labels[i], seen.back() % 3);
        }
    }
    return seen;
}

TEST(PartDataset, PartsShareNothingAndMissNothing) {
    const auto whole = numbers(7);
    PartDataset even(*whole, 0, 2);
    EXPECT_EQ(even.size(), 4U);
    EXPECT_THAT(first_numbers(even, 3), ElementsAre(0, 2, 4, 6));
    PartDataset odd(*whole, 1, 2);
    odd.rewind();
    EXPECT_EQ(odd.size(), 3U);
    EXPECT_THAT(first_numbers(odd, 1), ElementsAre(1, 3, 5));
    EXPECT_NE(even.digest().value(), odd.digest().value());
    const auto one = numbers(1);
    EXPECT_EQ(PartDataset(*one, 1, 2).size(), 0U);
}

TEST(MemoryDataset, TakesSamplesEvenly) {
    const auto whole = numbers(40);
    const auto batches = read_all(*whole);
    ASSERT_TRUE(batches);
    ASSERT_EQ(batches->size(), 3U);
    MemoryDataset all(*batches, 0);
    EXPECT_EQ(all.size(), 40U);
    EXPECT_EQ(first_numbers(all, 7).size(), 40U);
    MemoryDataset few(*batches, 4);
    EXPECT_THAT(first_numbers(few, 16), ElementsAre(0, 10, 20, 30));
    few.rewind();
    EXPECT_EQ(first_numbers(few, 1).size(), 4U);
    EXPECT_TRUE(few.has_labels());
}

TEST(MemoryDataset, KeepsThePicturesSizes) {
    std::vector<Batch> batches(2);
    for (std::size_t i = 0; i < 2; ++i) {
        batches[i].inputs.emplace_back("x", DataType::float32, Shape{2, 1});
        batches[i].names = {std::to_string(2 * i), std::to_string(2 * i + 1)};
        batches[i].labels = {-1, -1};
        batches[i].sizes = {{10 * i + 1, 5}, {10 * i + 2, 5}};
    }
    MemoryDataset data(batches, 0);
    const auto all = data.next(4);
    ASSERT_TRUE(all && *all);
    ASSERT_EQ((*all)->sizes.size(), 4U) << "a task maps boxes back by them";
    EXPECT_EQ((*all)->sizes[1].width, 2U);
    EXPECT_EQ((*all)->sizes[2].width, 11U);
}

} // namespace
} // namespace lathe::test
