#include "tasks/detection/truth.hpp"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/files.hpp"
#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Truth : public testing::Test {
protected:
    void put(const std::string& name, const std::string& text) {
        fs::create_directories((folder_ / name).parent_path());
        ASSERT_TRUE(write_file(folder_ / name, text));
    }
    DetectionTruth read() {
        auto truth = find_detection_truth(folder_.path());
        EXPECT_TRUE(truth) << truth.error().describe();
        if (!truth || !*truth) {
            ADD_FAILURE() << "no truth found";
            return {};
        }
        return **std::move(truth);
    }
    std::string refusal() {
        const auto truth = find_detection_truth(folder_.path());
        return truth ? "" : truth.error().describe();
    }

    test::TemporaryFolder folder_;
};

constexpr const char* coco = R"({"images": [{"id": 7, "file_name": "a.jpg", "width": 100, "height": 50},
    {"id": 9, "file_name": "train/b.jpg"}], "categories": [{"id": 90, "name": "toothbrush"}, {"id": 1, "name": "person"}],
    "annotations": [{"id": 1, "image_id": 7, "category_id": 90, "bbox": [1, 2, 3, 4], "area": 5, "iscrowd": 1},
                    {"id": 2, "image_id": 7, "category_id": 1, "bbox": [0, 0, 10, 20]}]})";

TEST_F(Truth, Coco) {
    put("a.jpg", "");
    put("instances.json", coco);
    const DetectionTruth truth = read();
    EXPECT_EQ(truth.format, "COCO");
    EXPECT_THAT(truth.classes, ElementsAre("person", "toothbrush"));
    EXPECT_THAT(truth.ids, ElementsAre(1, 90));
    EXPECT_EQ(truth.pictures, folder_.path());
    EXPECT_EQ(truth.objects(), 2U);
    const auto objects = truth.of("a.jpg", {100, 50});
    ASSERT_TRUE(objects);
    EXPECT_THAT(*objects, ElementsAre(TrueObject{{1, 2, 3, 4}, 1, 5, true}, TrueObject{{0, 0, 10, 20}, 0, 200}));
    EXPECT_THAT(truth.of("b.jpg", {1, 1}).value(), testing::IsEmpty());
    EXPECT_FALSE(truth.of("c.jpg", {1, 1})) << "a picture that is not listed says nothing";
}

TEST_F(Truth, CocoBesideAFolderOfPictures) {
    put("images/a.jpg", "");
    put("annotations/instances_val.json", coco);
    put("annotations/captions.json", R"({"images": [], "annotations": []})");
    EXPECT_EQ(read().pictures, folder_ / "images");
}

TEST_F(Truth, CocoIsRefusedWithThePlace) {
    struct Case {
        const char* json;
        const char* said;
    };
    for (
        const auto& [json, said] : std::vector<Case>{
            {R"({"images": [{}], "annotations": [], "categories": []})", "images[0]"},
            {R"({"images": [{"id": 1}], "annotations": [], "categories": []})", "\"file_name\""},
            {R"({"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}], "annotations": [], "categories": []})",
             "images[1] is there twice"},
            {R"({"images": [], "annotations": [], "categories": [{"id": 1}, {"id": 1}]})", "category 1"},
            {R"({"images": [], "annotations": [7], "categories": []})", "annotations[0]"},
            {R"({"images": [], "annotations": [{"image_id": 3, "category_id": 1}], "categories": []})", "image 3"},
            {R"({"images": [{"id": 3, "file_name": "a"}], "annotations": [{"image_id": 3, "category_id": 1}], "categories": []})",
             "category 1"},
            {R"({"images": [{"id": 3, "file_name": "a"}], "annotations": [{"image_id": 3, "category_id": 1, "bbox": [1, 2, -3, 4]}],
                  "categories": [{"id": 1}]})",
             "\"bbox\""}}) {
        put("instances.json", json);
        EXPECT_THAT(refusal(), HasSubstr(said)) << json;
    }
    put("instances.json", "{");
    EXPECT_NE(refusal(), "");
}

TEST_F(Truth, Yolo) {
    put("images/a.png", "");
    put("images/b.png", "");
    put("labels/a.txt", "2 0.5 0.5 0.2 0.4\r\n\n0 0.1 0.2 0.1 0.1 0.9\n");
    put("labels/classes.txt", "cat\ndog\n");
    const DetectionTruth truth = read();
    EXPECT_EQ(truth.format, "YOLO");
    EXPECT_EQ(truth.pictures, folder_ / "images");
    EXPECT_THAT(truth.classes, ElementsAre("cat", "dog", "2"));
    const auto objects = truth.of("a.png", {200, 100});
    ASSERT_EQ(objects->size(), 2U);
    EXPECT_EQ((*objects)[0].class_index, 2);
    EXPECT_NEAR((*objects)[0].box.left, 80, 1e-9);
    EXPECT_NEAR((*objects)[0].box.top, 30, 1e-9);
    EXPECT_NEAR((*objects)[0].area, 1600, 1e-9);
    EXPECT_THAT(truth.of("b.png", {200, 100}).value(), testing::IsEmpty()) << "without a file a picture holds nothing";
}

TEST_F(Truth, YoloIsRefusedWithTheLine) {
    put("a.jpg", "");
    for (const char* line :
         {"1 0.5 0.5 0.2", "x 0.5 0.5 0.2 0.2", "-1 0.5 0.5 0.2 0.2", "1 0.5 0.5 -0.2 0.2", "1 100 50 20 30",
          "1 nan 0.5 0.2 0.2", "0 0.1 0.1 0.2 0.2 0.3 0.3", "1e9 0.5 0.5 0.2 0.2"}) {
        put("a.txt", std::string("0 0.5 0.5 0.1 0.1\n") + line + "\n");
        EXPECT_THAT(refusal(), HasSubstr("line 2")) << line;
    }
}

TEST_F(Truth, PascalVoc) {
    put("JPEGImages/a.jpg", "");
    put("Annotations/a.xml", R"(<annotation><filename>a.jpg</filename>
        <object><name>dog</name><difficult>1</difficult>
          <bndbox><xmin>1</xmin><ymin>2</ymin><xmax>10</xmax><ymax>21</ymax></bndbox></object>
        <object><name> cat </name><bndbox><xmax>4</xmax><xmin>3</xmin><ymin>3</ymin><ymax>3</ymax></bndbox></object>
        </annotation>)");
    const DetectionTruth truth = read();
    EXPECT_EQ(truth.format, "Pascal VOC");
    EXPECT_THAT(truth.classes, ElementsAre("cat", "dog"));
    const auto objects = truth.of("a.jpg", {100, 100});
    ASSERT_EQ(objects->size(), 2U);
    EXPECT_EQ((*objects)[0], (TrueObject{{0, 1, 10, 20}, 1, 200, false, true}));
    EXPECT_EQ((*objects)[1].box, (Box{2, 2, 2, 1}));
}

TEST_F(Truth, PascalVocIsRefused) {
    put("a.jpg", "");
    for (const char* xml : {"", "<annotation>", "<annotation><object></object></annotation>",
                            "<annotation><object><name>a</name><bndbox><xmin>1</xmin></bndbox></object></annotation>",
                            "<annotation><object><name>a</name><bndbox><xmin>9</xmin><ymin>1</ymin><xmax>2</xmax>"
                            "<ymax>2</ymax></bndbox></object></annotation>"}) {
        put("a.xml", xml);
        EXPECT_NE(refusal(), "") << xml;
    }
}

TEST_F(Truth, OtherFoldersHaveNone) {
    put("a.jpg", "");
    put("labels.csv", "file,class_index\na.jpg,0\n");
    put("other.json", "{}");
    put("a.txt", "a caption");
    const auto truth = find_detection_truth(folder_.path());
    ASSERT_TRUE(truth);
    EXPECT_FALSE(*truth);
    EXPECT_FALSE(*find_detection_truth(folder_ / "nowhere"));
}

TEST(MapClasses, ByNameIndexOrCategory) {
    DetectionTruth truth;
    truth.classes = {"person", "toothbrush"};
    truth.ids = {1, 90};
    EXPECT_THAT(*map_classes(truth, {"toothbrush", "cat", "person"}, 3), ElementsAre(2, 0));
    EXPECT_THAT(*map_classes(truth, {}, 2), ElementsAre(0, 1));
    EXPECT_THAT(*map_classes(truth, {}, 0), ElementsAre(0, 1));
    EXPECT_THAT(*map_classes(truth, {}, 91), ElementsAre(1, 90));
    EXPECT_THAT(*map_classes(truth, {}, 90), ElementsAre(0, 89));
    const auto refused = map_classes(truth, {}, 20);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().describe(), HasSubstr("20"));
    truth.ids.clear();
    EXPECT_THAT(*map_classes(truth, {}, 20), ElementsAre(0, 1)) << "YOLO's numbers are the model's";
    EXPECT_FALSE(map_classes(truth, {}, 1));
}

/// The COCO photos that lie beside the checkout.
TEST(SharedCoco, IsReadWhole) {
    const fs::path folder = test::shared_data("coco/validation");
    if (!fs::exists(folder)) GTEST_SKIP() << "SKIPPED: no " << folder;
    const auto truth = find_detection_truth(folder);
    ASSERT_TRUE(truth) << truth.error().describe();
    EXPECT_EQ((*truth)->by_name.size(), 80U);
    EXPECT_EQ((*truth)->objects(), 815U);
    EXPECT_EQ((*truth)->classes.size(), 80U);
    EXPECT_EQ((*truth)->pictures, folder);
}

} // namespace
} // namespace lathe
