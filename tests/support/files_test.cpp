#include "support/files.hpp"

#include <chrono>
#include <csignal>
#include <fstream>
#include <random>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/hash.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using testing::HasSubstr;

std::size_t entries(const fs::path& folder) {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(AtomicFile, AppearsAtCommitOnly) {
    const TemporaryFolder folder;
    const fs::path path = folder / "out.bin";
    {
        auto file = AtomicFile::create(path);
        ASSERT_TRUE(file);
        ASSERT_TRUE(file->write("abc"));
        EXPECT_FALSE(fs::exists(path));
    }
    EXPECT_EQ(entries(folder.path()), 0U) << "an abandoned file leaves nothing";
    ASSERT_TRUE(write_file(path, "old"));
    auto file = AtomicFile::create(path);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write("ne"));
    ASSERT_TRUE(file->write("w"));
    EXPECT_EQ(file->size(), 3U);
    EXPECT_EQ(*read_text_file(path), "old");
    ASSERT_TRUE(file->commit());
    EXPECT_EQ(*read_text_file(path), "new");
    EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(AtomicFile, LinksStayAndLeadToWhatWasWritten) {
    const TemporaryFolder folder;
    ASSERT_TRUE(write_file(folder / "real.txt", "old"));
    fs::create_symlink("real.txt", folder / "link.txt");
    ASSERT_TRUE(write_file(folder / "link.txt", "new"));
    EXPECT_TRUE(fs::is_symlink(folder / "link.txt"));
    EXPECT_EQ(*read_text_file(folder / "real.txt"), "new");
}

// Renamed over, as root may do, they would be files for everyone from then on.
TEST(AtomicFile, DevicesAndPipesAreWrittenToAndStay) {
    const TemporaryFolder folder;
    fs::create_symlink("/dev/null", folder / "null"); // by way of links, so that no device is lost if this fails
    fs::create_symlink("/dev/full", folder / "full");
    ASSERT_TRUE(write_file(folder / "null", "gone"));
    const auto full = write_file(folder / "full", "too much");
    ASSERT_FALSE(full);
    EXPECT_THAT(full.error().describe(), HasSubstr("No space left"));
    EXPECT_TRUE(fs::is_character_file(folder / "null") && fs::is_character_file(folder / "full"));

    const fs::path pipe = folder / "pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    std::string got;
    std::thread reader([&] { got = test::run_command("cat '" + pipe.string() + "'").output; });
    EXPECT_TRUE(write_file(pipe, "through"));
    reader.join();
    EXPECT_EQ(got, "through");
    EXPECT_TRUE(fs::is_fifo(pipe));
    EXPECT_EQ(entries(folder.path()), 3U);
}

TEST(MappedFile, APipeIsRefusedNotWaitedFor) {
    const TemporaryFolder folder;
    const fs::path pipe = folder / "pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const auto opened = MappedFile::open(pipe);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::invalid_argument);
}

TEST(AtomicFile, KilledAtAnyMomentLeavesOldOrNew) {
    const TemporaryFolder folder;
    const fs::path path = folder / "out.bin";
    const std::string old_text(100'000, 'o');
    const std::string new_text(3'000'000, 'n');
    const unsigned seed = 3;
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::size_t kept = 0;
    for (int trial = 0; trial < 25; ++trial) {
        ASSERT_TRUE(write_file(path, old_text));
        const pid_t child = ::fork();
        if (child == 0) {
            for (;;) { // until killed; alternates so that every moment of a write is hit
                if (!write_file(path, new_text) || !write_file(path, old_text)) ::_exit(1);
            }
        }
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
        ::kill(child, SIGKILL);
        int status = 0;
        ::waitpid(child, &status, 0);
        ASSERT_TRUE(WIFSIGNALED(status)) << "the child failed by itself";
        const auto text = read_text_file(path);
        ASSERT_TRUE(text);
        ASSERT_TRUE(*text == old_text || *text == new_text) << "torn file of " << text->size() << " bytes";
        kept += entries(folder.path()) - 1;
    }
    ASSERT_TRUE(write_file(path, old_text));
    EXPECT_EQ(entries(folder.path()), 1U) << "leftovers of " << kept << " killed writers must go";
}

/// RLIMIT_FSIZE stands in for a full disk: writes past it fail with EFBIG.
TEST(AtomicFile, AFullDiskKeepsTheOldFileAndLeavesNoOther) {
    const TemporaryFolder folder;
    const fs::path path = folder / "out.bin";
    ASSERT_TRUE(write_file(path, "old"));
    const pid_t child = ::fork();
    if (child == 0) {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{64'000, 64'000};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        const auto written = write_file(path, std::string(1'000'000, 'n'));
        ::_exit(written ? 1 : written.error().code == ErrorCode::io && written.error().where == path ? 0 : 2);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(*read_text_file(path), "old");
    EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(AtomicFile, PlacesThatCannotBeWritten) {
    const TemporaryFolder folder;
    for (const fs::path& path : {folder / "none/out.bin", folder.path(), folder.path() / ""}) {
        const auto file = AtomicFile::create(path);
        EXPECT_FALSE(file) << path;
    }
    EXPECT_EQ(AtomicFile::create(folder / "none/out.bin").error().code, ErrorCode::not_found);
}

TEST(MappedFile, ReadsOrSaysWhyNot) {
    const TemporaryFolder folder;
    ASSERT_TRUE(write_file(folder / "empty", ""));
    const auto empty = MappedFile::open(folder / "empty");
    ASSERT_TRUE(empty);
    EXPECT_EQ((*empty)->bytes().size(), 0U);
    EXPECT_EQ(MappedFile::open(folder / "none").error().code, ErrorCode::not_found);
    EXPECT_EQ(MappedFile::open(folder.path()).error().code, ErrorCode::invalid_argument);
    ASSERT_TRUE(write_file(folder / "ten", "0123456789"));
    EXPECT_TRUE(read_text_file(folder / "ten", 10));
    const auto large = read_text_file(folder / "ten", 9);
    ASSERT_FALSE(large);
    EXPECT_THAT(large.error().where, HasSubstr("ten"));
}

TEST(Hash, SameBytesSameDigestHoweverFed) {
    const TemporaryFolder folder;
    const std::string text = "The quick brown fox";
    ASSERT_TRUE(write_file(folder / "a", text));
    const auto bytes = std::as_bytes(std::span(text));
    Hasher parts;
    parts.update(bytes.first(7));
    parts.update(bytes.subspan(7));
    EXPECT_EQ(parts.hex(), hash_hex(bytes));
    EXPECT_EQ(*hash_file(folder / "a"), hash_hex(bytes));
    EXPECT_EQ(parts.hex().size(), 32U);
    EXPECT_FALSE(hash_file(folder / "none"));
    Hasher one;
    one.update(std::string_view("ab"));
    one.update(std::string_view("c"));
    Hasher two;
    two.update(std::string_view("a"));
    two.update(std::string_view("bc"));
    EXPECT_NE(one.hex(), two.hex()) << "texts carry their length";
}

} // namespace
} // namespace lathe
