// lathe completion, asked as the shells themselves ask it.
#include "cli/workspace.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Shell {
    const char* name;
    const char* check; ///< parses the script; the shell's own words follow
    const char* ask;   ///< prints what it offers for the line
};

/// bash's function fills COMPREPLY from the words of the line; fish answers by itself.
const Shell shells[] = {
    {"bash", "bash -n",
     "bash -c '. ./script; COMP_WORDS=(LINE); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _lathe; "
     "printf \"%s\\n\" \"${COMPREPLY[@]}\"'"},
    {"fish", "fish -n", "fish -c 'source ./script; complete -C \"LINE\"'"},
    {"zsh", "zsh -n", ""},
};

struct Asked {
    const char* line;
    const char* offered;
    const char* not_offered;
};

const Asked lines[] = {
    {"lathe opt", "optimize", "bench"},
    {"lathe compl", "completion", "compare"},
    {"lathe quantize --eff", "--effort", "--exclude"},
    {"lathe bench --again", "--against", "--effort"},
    {"lathe trtexec-log --out", "--output", "--against"},
};

class Completion : public testing::TestWithParam<Shell> {};

TEST_P(Completion, OffersCommandsAndTheirOptions) {
    const Shell& shell = GetParam();
    const std::string name = shell.name;
    if (run_command("command -v " + name).exit_code != 0) GTEST_SKIP() << "SKIPPED: " << name << " is not installed";
    const Workspace work;
    (void)work.good("completion " + name + " > script");
    EXPECT_EQ(work.as_json(work.good("completion " + name + " --json").output)["script"].get<std::string>(),
              work.read("script"));
    const std::string in_folder = "cd '" + work.path("").string() + "' && ";
    const CommandResult parsed = run_command(in_folder + shell.check + " script");
    EXPECT_EQ(parsed.exit_code, 0) << parsed.errors;
    if (*shell.ask == '\0') { // zsh completes in a terminal only: what it would offer stands in the script
        for (const Asked& asked : lines)
            EXPECT_THAT(work.read("script"), HasSubstr(asked.offered));
        return;
    }
    for (const Asked& asked : lines) {
        std::string command = shell.ask;
        command.replace(command.find("LINE"), 4, asked.line);
        const CommandResult result = run_command(in_folder + command);
        EXPECT_EQ(result.errors, "") << asked.line;
        EXPECT_THAT(result.output, HasSubstr(asked.offered)) << asked.line;
        EXPECT_THAT(result.output, Not(HasSubstr(asked.not_offered))) << asked.line;
    }
}

std::string name_of(const testing::TestParamInfo<Shell>& shell) { return shell.param.name; }
INSTANTIATE_TEST_SUITE_P(Shells, Completion, testing::ValuesIn(shells), name_of);

} // namespace
} // namespace lathe::test
