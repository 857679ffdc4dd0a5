#include "data/text_dataset.hpp"

#include <fstream>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/text_table.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

fs::path put(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
    const fs::path path = folder.path() / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
}

/// A token a character (its code), 1 in front and 2 behind each text.
class Letters final : public Tokenizer {
public:
    Letters(std::size_t limit, bool separate) : limit_(limit == 0 ? 100 : limit), separate_(separate) {}
    std::size_t max_length() const override { return limit_; }
    std::int64_t pad_id() const override { return 7; }
    bool separates_pairs() const override { return separate_; }
    std::string digest() const override { return "letters"; }
    Result<Tokens> encode(std::span<const std::string> first, std::span<const std::string> second) override {
        std::vector<std::vector<std::int64_t>> rows;
        std::vector<std::size_t> ends;
        for (std::size_t i = 0; i < first.size(); ++i) {
            std::vector<std::int64_t> row{1};
            for (const char c : first[i])
                row.push_back(c);
            row.push_back(2);
            ends.push_back(row.size());
            if (!second.empty()) {
                for (const char c : second[i])
                    row.push_back(c);
                row.push_back(2);
            }
            if (row.size() > limit_) ++cut_;
            row.resize(std::min(row.size(), limit_));
            rows.push_back(std::move(row));
        }
        Tokens tokens;
        tokens.count = rows.size();
        for (const auto& row : rows)
            tokens.length = std::max(tokens.length, row.size());
        for (std::size_t i = 0; i < rows.size(); ++i) {
            for (std::size_t j = 0; j < tokens.length; ++j) {
                const bool inside = j < rows[i].size();
                tokens.ids.push_back(inside ? rows[i][j] : 7);
                tokens.mask.push_back(inside ? 1 : 0);
                tokens.types.push_back(inside && j >= ends[i] ? 1 : 0);
            }
        }
        return tokens;
    }
    Result<std::size_t> count_cut(std::span<const std::string>, std::span<const std::string>, const Tokens&) override {
        return std::exchange(cut_, 0);
    }

private:
    std::size_t limit_;
    std::size_t cut_ = 0; ///< of the last texts
    bool separate_;
};

DatasetOptions letters(bool separate = false) {
    DatasetOptions options;
    options.text.tokenizer = "{}";
    options.text.make_tokenizer = [separate](std::string_view, std::size_t limit) {
        return Result<std::shared_ptr<Tokenizer>>(std::make_shared<Letters>(limit, separate));
    };
    return options;
}

std::vector<InputSpec> inputs(std::int64_t length = -1, DataType type = DataType::int64) {
    return {{"input_ids", type, {-1, length}},
            {"attention_mask", type, {-1, length}},
            {"token_type_ids", type, {-1, length}}};
}

std::vector<std::int64_t> row(const HostTensor& tensor, std::size_t index) {
    const auto length = static_cast<std::size_t>(tensor.shape[1]);
    const auto values = tensor.as<std::int64_t>().subspan(index * length, length);
    return {values.begin(), values.end()};
}

Batch first_batch(Dataset& dataset, std::size_t count) {
    auto batch = dataset.next(count);
    EXPECT_TRUE(batch) << batch.error().describe();
    EXPECT_TRUE(*batch);
    return std::move(**batch);
}

TEST(TextColumns, AreNamed) {
    const auto columns = parse_text_columns("text=a b,label=2");
    ASSERT_TRUE(columns);
    EXPECT_EQ(columns->text, "a b");
    EXPECT_EQ(columns->pair, "");
    EXPECT_EQ(columns->label, "2");
    for (const char* wrong : {"text", "text=", "words=a", "text=a,,label=b"})
        EXPECT_FALSE(parse_text_columns(wrong)) << wrong;
}

struct TableCase {
    std::string file;
    std::string content;
    std::string columns;
    std::vector<std::string> texts;
    std::vector<std::string> pairs;
    std::vector<std::string> labels;
};

TEST(TextTable, ReadsEveryFormat) {
    const TableCase cases[] = {
        // A quote is a character in GLUE's files; CRLF and an empty line are no part of a text.
        {"a.tsv", "sentence\tlabel\r\na \"b\"\t1\r\n\r\n c \t0\r\n", "", {"a \"b\"", " c "}, {"", ""}, {"1", "0"}},
        {"b.csv", "id,text,label\n1,\"x, \"\"y\"\"\nz\",0\n2,w,1", "", {"x, \"y\"\nz", "w"}, {"", ""}, {"0", "1"}},
        // STS-B's .csv: tabs, no header, more fields in some rows.
        {"c.csv",
         "n\t4.5\tone\ttwo\nm\t0\tthree\tfour\t\"\n",
         "text=2,pair=3,label=1",
         {"one", "three"},
         {"two", "four"},
         {"4.5", "0"}},
        {"d.jsonl",
         "{\"text\": \"\\u00e9\\n\", \"label\": 3}\n{\"text\": \"b\", \"label\": \"4\"}\n",
         "",
         {"\xC3\xA9\n", "b"},
         {"", ""},
         {"3", "4"}},
        {"e.txt", "one, two\n\nthree", "", {"one, two", "three"}, {"", ""}, {"", ""}},
        {"f.tsv", "\xEF\xBB\xBFsentence1\tsentence2\tscore\nx\ty\t5\n", "", {"x"}, {"y"}, {"5"}},
        {"g.tsv", "a\tb\nx\ty\n", "text=b", {"y"}, {""}, {""}},
    };
    const TemporaryFolder folder;
    for (const auto& each : cases) {
        SCOPED_TRACE(each.file);
        const auto columns = parse_text_columns(each.columns);
        ASSERT_TRUE(columns);
        const auto table = TextTable::open(put(folder, each.file, each.content), *columns);
        ASSERT_TRUE(table) << table.error().describe();
        ASSERT_EQ(table->rows(), each.texts.size());
        for (std::size_t i = 0; i < table->rows(); ++i) {
            const auto read = table->read(i);
            ASSERT_TRUE(read) << read.error().describe();
            EXPECT_EQ(read->text, each.texts[i]);
            EXPECT_EQ(read->pair, each.pairs[i]);
            EXPECT_EQ(read->label, each.labels[i]);
        }
    }
}

TEST(TextTable, RefusesWithThePlace) {
    struct Case {
        std::string file, content, columns, message;
    };
    const Case cases[] = {
        {"a.tsv", "x\ty\n1\t2\n", "", "no column with texts"},
        {"a.tsv", "x\ty\n1\t2\n", "text=z", "no column \"z\""},
        {"a.tsv", "x\ty\n1\t2\n", "text=5", "no column 5"},
        {"a.csv", "text,b\n\"x,1\n", "", "does not end"},
        {"a.tsv", "sentence\n", "", "no samples"},
        {"a.tsv", "", "", "no samples"},
        {"a.jsonl", "[1]\n", "", "no JSON object"},
        {"a.txt", "x\n", "text=0,label=1", "no columns"},
    };
    const TemporaryFolder folder;
    for (const auto& each : cases) {
        const auto columns = parse_text_columns(each.columns);
        ASSERT_TRUE(columns);
        const auto table = TextTable::open(put(folder, each.file, each.content), *columns);
        ASSERT_FALSE(table) << each.content;
        EXPECT_THAT(table.error().describe(), HasSubstr(each.message));
    }
    // A row that lacks the column, a line that is no JSON: told with their number when their turn comes.
    const auto table = TextTable::open(put(folder, "short.tsv", "a\ttext\nx\ty\nz\n"), {});
    ASSERT_TRUE(table);
    EXPECT_TRUE(table->read(0));
    EXPECT_THAT(table->read(1).error().describe(), HasSubstr("row 3"));
}

// Never the text up to its comma.
TEST(TextTable, CommasWithoutQuotesAreRefused) {
    struct Case {
        std::string content, columns;
        std::size_t row;
        std::string message;
    };
    const Case cases[] = {
        {"text,label\nfine,1\nthe boat, sunk,1\n", "", 1, "has 3 fields, the first line has 2"},
        {"text,label\nwell,1,\n", "", 0, "has 3 fields, the first line has 2"},
        {"id,text\n1,\"a, b\"\n2,a, b\n", "text=text", 1, "has 3 fields, the first line has 2"},
        {"text\nfine\nWell,\n", "", 1, "has 2 fields, the first line has 1"},
        {"fine,1\na, b,1\n", "text=0,label=1", 1, "has 3 fields, the first line has 2"},
        {"Well, fine\nno comma\n", "text=0", 1, "has 1 fields, the first line has 2"},
    };
    const TemporaryFolder folder;
    for (const auto& each : cases) {
        SCOPED_TRACE(each.content);
        const auto columns = parse_text_columns(each.columns);
        ASSERT_TRUE(columns);
        const auto table = TextTable::open(put(folder, "a.csv", each.content), *columns);
        ASSERT_TRUE(table) << table.error().describe();
        if (each.row > 0) {
            EXPECT_TRUE(table->read(0));
        }
        const auto read = table->read(each.row);
        ASSERT_FALSE(read) << read->text;
        EXPECT_EQ(read.error().code, ErrorCode::parse_error);
        EXPECT_THAT(read.error().message, HasSubstr(each.message));
        const bool header = each.columns.find('0') == std::string::npos;
        EXPECT_THAT(read.error().where, HasSubstr("row " + std::to_string(each.row + (header ? 2 : 1))));
        EXPECT_THAT(read.error().hint, HasSubstr("between quotes"));
    }
    const auto shorter = TextTable::open(put(folder, "b.csv", "text,label,remark\nfine,1\n"), {});
    ASSERT_TRUE(shorter);
    EXPECT_EQ(shorter->read(0)->text, "fine") << "what is read is there";
}

TEST(TextTable, TakesUtf8Alone) {
    const TemporaryFolder folder;
    const std::string mark = "\xEF\xBB\xBF";
    struct Case {
        std::string file, content, columns;
        std::size_t row;
        std::string message, where;
    };
    const Case cases[] = {
        // Bytes are counted in the file.
        {"a.tsv", "text\tlabel\nfine\t1\ncaf\xE9\t0\n", "", 1, "0xE9 at byte 22", "a.tsv, row 3"},
        {"b.csv", "text,label\n\"caf\xE9, \"\"bar\"\"\",0\n", "", 0, "0xE9 at byte 16", "b.csv, row 2"},
        {"c.txt", mark + "fine\n\xED\xA0\x80\n", "", 1, "0xED at byte 9", "c.txt, row 2"},
        {"d.jsonl", "{\"text\": \"fine\"}\n{\"text\": \"\xC0\xAF\"}\n", "", 1, "0xC0 at byte 28", "d.jsonl, row 2"},
        {"e.csv", "one\ttwo\t\xFF\xFE\n", "text=0,pair=1", 0, "0xFF at byte 9", "e.csv, row 1"},
    };
    for (const auto& each : cases) {
        SCOPED_TRACE(each.file);
        const auto columns = parse_text_columns(each.columns);
        ASSERT_TRUE(columns);
        const auto table = TextTable::open(put(folder, each.file, each.content), *columns);
        const auto error = table ? table->read(each.row).error() : table.error();
        if (table && each.row > 0) {
            EXPECT_TRUE(table->read(0));
        }
        EXPECT_EQ(error.code, ErrorCode::parse_error);
        EXPECT_THAT(error.message, HasSubstr(each.message));
        EXPECT_THAT(error.where, HasSubstr(each.where));
        EXPECT_THAT(error.hint, HasSubstr("iconv"));
    }
    for (const char* file : {"u.csv", "u.tsv", "u.txt", "u.jsonl"}) {
        const auto table = TextTable::open(put(folder, file, std::string("\xFF\xFEt\0e\0\n\0", 8)), {});
        ASSERT_FALSE(table) << file;
        EXPECT_THAT(table.error().describe(), HasSubstr("the file is UTF-16"));
        EXPECT_THAT(table.error().hint, HasSubstr("iconv -f UTF-16"));
    }
    for (const auto& [file, content] : {std::pair<std::string, std::string>{"m.csv", "text\ncaf\xC3\xA9\n"},
                                        {"m.tsv", "text\ncaf\xC3\xA9\n"},
                                        {"m.txt", "caf\xC3\xA9\n"},
                                        {"m.jsonl", "{\"text\": \"caf\xC3\xA9\"}\n"}}) {
        const auto table = TextTable::open(put(folder, file, mark + content), {});
        ASSERT_TRUE(table) << file << table.error().describe();
        EXPECT_EQ(table->read(0)->text, "caf\xC3\xA9") << file;
    }
}

TEST(TextDataset, TextsInMemoryAreUtf8Too) {
    const auto refused = [](std::vector<std::string> texts, std::vector<std::string> pairs) {
        const auto dataset = dataset_of_texts(std::move(texts), std::move(pairs), inputs(), letters());
        EXPECT_TRUE(dataset);
        const auto batch = (*dataset)->next(2);
        EXPECT_FALSE(batch);
        return batch ? std::string() : batch.error().describe();
    };
    EXPECT_THAT(refused({"fine", "caf\xE9"}, {}), HasSubstr("0xE9 at byte 4"));
    EXPECT_THAT(refused({"fine", "caf\xE9"}, {}), HasSubstr("text 2 of 2"));
    EXPECT_THAT(refused({"fine"}, {"\xFF\xFE"}), HasSubstr("second text 1 of 1"));
}

TEST(TextDataset, FillsUpToTheLongestOfTheBatch) {
    const TemporaryFolder folder;
    const auto path = put(folder, "a.tsv", "sentence\tlabel\nab\t1\nc\t0\nd\t1\n");
    const auto dataset = open_dataset(path, {}, inputs(), letters());
    ASSERT_TRUE(dataset) << dataset.error().describe();
    EXPECT_EQ((*dataset)->size(), 3U);
    EXPECT_TRUE((*dataset)->has_labels());
    const Batch batch = first_batch(**dataset, 2);
    EXPECT_EQ(batch.inputs[0].shape, (Shape{2, 4}));
    EXPECT_THAT(row(batch.inputs[0], 0), ElementsAre(1, 'a', 'b', 2));
    EXPECT_THAT(row(batch.inputs[0], 1), ElementsAre(1, 'c', 2, 7));
    EXPECT_THAT(row(batch.inputs[1], 1), ElementsAre(1, 1, 1, 0));
    EXPECT_THAT(batch.labels, ElementsAre(1, 0));
    const Batch last = first_batch(**dataset, 2);
    EXPECT_EQ(last.inputs[0].shape, (Shape{1, 3}));
    const auto end = (*dataset)->next(2);
    ASSERT_TRUE(end);
    EXPECT_FALSE(*end);
    (*dataset)->rewind();
    EXPECT_EQ(first_batch(**dataset, 1).labels, std::vector<std::int64_t>{1});
}

TEST(TextDataset, FixedLengthsCutAndFill) {
    const TemporaryFolder folder;
    const auto path = put(folder, "a.txt", "abcdefgh\nx\n");
    const auto fixed = open_dataset(path, {}, inputs(5), letters());
    ASSERT_TRUE(fixed);
    const Batch batch = first_batch(**fixed, 2);
    EXPECT_THAT(row(batch.inputs[0], 0), ElementsAre(1, 'a', 'b', 'c', 'd'));
    EXPECT_THAT(row(batch.inputs[0], 1), ElementsAre(1, 'x', 2, 7, 7));
    EXPECT_EQ(batch.cut, 1U);
    EXPECT_EQ(batch.token_limit, 5U);
    CutTexts cut;
    EXPECT_EQ(cut.describe(), "");
    cut.add(batch);
    EXPECT_EQ(cut.describe(), "1 of 2 texts have more than the 5 tokens that the model takes here, and were cut");
    auto options = letters();
    options.text.min_length = 4;
    options.text.max_length = 6;
    const auto ranged = open_dataset(path, {}, inputs(), options);
    ASSERT_TRUE(ranged);
    EXPECT_EQ(first_batch(**ranged, 1).inputs[0].shape, (Shape{1, 6}));
    EXPECT_EQ(first_batch(**ranged, 1).inputs[0].shape, (Shape{1, 4}));
    const auto narrow = open_dataset(path, {}, inputs(-1, DataType::int32), letters());
    ASSERT_TRUE(narrow);
    EXPECT_EQ(first_batch(**narrow, 1).inputs[0].as<std::int32_t>()[1], 'a');
}

/// Characters alone, filled up in front: as a tokenizer of prompts.
class Prompts final : public Tokenizer {
public:
    std::size_t max_length() const override { return 100; }
    std::int64_t pad_id() const override { return 7; }
    PaddingSide padding_side() const override { return PaddingSide::in_front; }
    bool separates_pairs() const override { return false; }
    std::string digest() const override { return "prompts"; }
    Result<Tokens> encode(std::span<const std::string> first, std::span<const std::string>) override {
        Tokens tokens;
        tokens.count = first.size();
        for (const std::string& text : first)
            tokens.length = std::max(tokens.length, text.size());
        for (const std::string& text : first) {
            const std::size_t empty = tokens.length - text.size();
            tokens.ids.insert(tokens.ids.end(), empty, 7);
            tokens.ids.insert(tokens.ids.end(), text.begin(), text.end());
            tokens.mask.insert(tokens.mask.end(), empty, 0);
            tokens.mask.insert(tokens.mask.end(), text.size(), 1);
        }
        return tokens;
    }
    Result<std::size_t> count_cut(std::span<const std::string>, std::span<const std::string>, const Tokens&) override {
        return std::size_t{0};
    }
};

TEST(TextDataset, PromptsAreFilledUpInFrontAndTheirTokensCounted) {
    DatasetOptions options;
    options.text.tokenizer = "{}";
    options.text.make_tokenizer = [](std::string_view, std::size_t) {
        return Result<std::shared_ptr<Tokenizer>>(std::make_shared<Prompts>());
    };
    const auto specs = [](std::int64_t length) {
        return std::vector<InputSpec>{{"input_ids", DataType::int64, {-1, length}},
                                      {"attention_mask", DataType::int64, {-1, length}},
                                      {"position_ids", DataType::int64, {-1, length}}};
    };
    const auto free = dataset_of_texts({"abc", "d"}, {}, specs(-1), options);
    ASSERT_TRUE(free);
    const Batch batch = first_batch(**free, 2);
    EXPECT_THAT(row(batch.inputs[0], 1), ElementsAre(7, 7, 'd'));
    EXPECT_THAT(row(batch.inputs[1], 1), ElementsAre(0, 0, 1));
    EXPECT_THAT(row(batch.inputs[2], 0), ElementsAre(0, 1, 2));
    EXPECT_THAT(row(batch.inputs[2], 1), ElementsAre(0, 0, 0));
    const auto fixed = dataset_of_texts({"abc"}, {}, specs(5), options);
    ASSERT_TRUE(fixed);
    const Batch wide = first_batch(**fixed, 1);
    EXPECT_THAT(row(wide.inputs[0], 0), ElementsAre(7, 7, 'a', 'b', 'c'));
    EXPECT_THAT(row(wide.inputs[1], 0), ElementsAre(0, 0, 1, 1, 1));
    EXPECT_THAT(row(wide.inputs[2], 0), ElementsAre(0, 0, 0, 1, 2));
    const auto empty = dataset_of_texts({"abc", ""}, {}, specs(-1), options);
    ASSERT_TRUE(empty);
    EXPECT_THAT((*empty)->next(2).error().describe(), HasSubstr("no tokens"));
}

TEST(TextDataset, PairsAreOneSampleOrTwo) {
    const TemporaryFolder folder;
    const auto path = put(folder, "a.tsv", "sentence1\tsentence2\tscore\na\tb\t1.5\nc\td\t0\n");
    auto options = letters();
    options.text.labels = TextLabels::none;
    const auto joint = open_dataset(path, {}, inputs(), options);
    ASSERT_TRUE(joint);
    EXPECT_FALSE((*joint)->has_labels());
    const Batch batch = first_batch(**joint, 1);
    EXPECT_THAT(row(batch.inputs[0], 0), ElementsAre(1, 'a', 2, 'b', 2));
    EXPECT_THAT(row(batch.inputs[2], 0), ElementsAre(0, 0, 0, 1, 1));

    options = letters(true);
    options.text.labels = TextLabels::scores;
    const auto separate = open_dataset(path, {}, inputs(), options);
    ASSERT_TRUE(separate);
    EXPECT_EQ((*separate)->size(), 4U);
    const Batch texts = first_batch(**separate, 4);
    EXPECT_THAT(row(texts.inputs[0], 1), ElementsAre(1, 'b', 2));
    EXPECT_THAT(row(texts.inputs[0], 2), ElementsAre(1, 'c', 2));
    EXPECT_THAT(texts.scores, ElementsAre(1.5, 1.5, 0, 0));
    EXPECT_THAT(texts.names, ElementsAre("0, first", "0, second", "1, first", "1, second"));
    // A model that scores pairs itself reads both together.
    auto scoring = letters();
    scoring.text.labels = TextLabels::scores;
    scoring.text.joint = true;
    const auto scored = open_dataset(path, {}, inputs(), scoring);
    ASSERT_TRUE(scored);
    EXPECT_EQ((*scored)->size(), 2U);
    const Batch both = first_batch(**scored, 2);
    EXPECT_THAT(row(both.inputs[0], 1), ElementsAre(1, 'c', 2, 'd', 2));
    EXPECT_THAT(both.scores, ElementsAre(1.5, 0));
    options.samples = 2; // texts
    const auto fewer = open_dataset(path, {}, inputs(), options);
    ASSERT_TRUE(fewer);
    EXPECT_EQ((*fewer)->size(), 2U);
}

TEST(TextDataset, LabelsInWordsAreTheModelsClasses) {
    const TemporaryFolder folder;
    auto options = letters();
    options.text.class_names = {"negative", "Positive", "\xC3\x89tat", "a, b", "A, B", "2.5"};
    const auto path = put(folder, "a.tsv",
                          "sentence\tlabel\nx\tPositive\nx\tNEGATIVE\nx\tpositive\nx\t\xC3\xA9tat\nx\ta, b\nx\tA, "
                          "B\nx\t2.5\nx\t4\nx\t1.0\nx\tA, b\n");
    const auto dataset = open_dataset(path, {}, inputs(), options);
    ASSERT_TRUE(dataset) << dataset.error().describe();
    EXPECT_THAT(first_batch(**dataset, 9).labels, ElementsAre(1, 0, 1, 2, 3, 4, 5, 4, 1));
    const auto either = (*dataset)->next(1);
    ASSERT_FALSE(either) << "two classes differ from it in case alone";
    EXPECT_THAT(either.error().message, HasSubstr("\"A, b\" is neither the index of a class nor the name of one"));
    EXPECT_THAT(either.error().hint, HasSubstr("the model knows negative, Positive, \xC3\x89tat"));
    EXPECT_THAT(either.error().where, HasSubstr("sample 9"));

    // An empty label is no class without a name; long lists are cut short.
    options.text.class_names.assign(20, "");
    options.text.class_names[1] = "one";
    const auto empty = open_dataset(put(folder, "b.tsv", "sentence\tlabel\nx\t\n"), {}, inputs(), options);
    ASSERT_TRUE(empty);
    const auto none = (*empty)->next(1);
    ASSERT_FALSE(none);
    EXPECT_THAT(none.error().hint, HasSubstr("class 0, one, class 2"));
    EXPECT_THAT(none.error().hint, HasSubstr("and 8 more"));
}

TEST(TextDataset, Refuses) {
    const TemporaryFolder folder;
    const auto path = put(folder, "a.tsv", "sentence\tlabel\nab\tpositive\n");
    const auto named = open_dataset(path, {}, inputs(), letters());
    ASSERT_TRUE(named);
    EXPECT_THAT((*named)->next(1).error().describe(), HasSubstr("\"positive\" is not the index of a class"));
    const auto no_tokenizer = open_dataset(path, {}, inputs(), {});
    ASSERT_FALSE(no_tokenizer);
    EXPECT_THAT(no_tokenizer.error().describe(), HasSubstr("carries no tokenizer"));
    auto others = inputs();
    others.push_back({"pixels", DataType::float32, {-1, 3}});
    EXPECT_THAT(open_dataset(path, {}, others, letters()).error().describe(), HasSubstr("pixels"));
    auto scored = letters();
    scored.text.labels = TextLabels::scores;
    EXPECT_THAT(open_dataset(path, {}, inputs(), scored).error().describe(), HasSubstr("two text columns"));
    auto pictures = letters();
    pictures.pictures = true;
    EXPECT_THAT(open_dataset(path, {}, inputs(), pictures).error().describe(), HasSubstr("texts, not pictures"));
    EXPECT_FALSE(dataset_of_texts({"a"}, {"b", "c"}, inputs(), letters()));
    EXPECT_FALSE(dataset_of_texts({}, {}, inputs(), letters()));
}

TEST(TextDataset, DigestFollowsTextsAndColumns) {
    const TemporaryFolder folder;
    const auto digest = [&](const std::string& content, const std::string& columns) {
        auto options = letters();
        options.text.columns = columns;
        const auto dataset = open_dataset(put(folder, "a.tsv", content), {}, inputs(), options);
        EXPECT_TRUE(dataset) << dataset.error().describe();
        return (*dataset)->digest().value();
    };
    const std::string text = "sentence\tlabel\tmore\nab\t1\t0\n";
    EXPECT_EQ(digest(text, ""), digest(text, "text=sentence"));
    EXPECT_NE(digest(text, ""), digest(text, "label=more"));
    EXPECT_NE(digest(text, ""), digest("sentence\tlabel\tmore\nac\t1\t0\n", ""));
}

} // namespace
} // namespace lathe
