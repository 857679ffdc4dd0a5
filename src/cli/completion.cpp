#include <memory>

#include "cli/commands.hpp"

namespace lathe::cli {

namespace {

struct Word {
    std::string name; ///< "--output", "-o", "optimize"
    std::string help; ///< one line
    bool takes_value = false;
};

/// The first sentence or so, without what a shell's quotes would end at.
std::string short_help(const std::string& text) {
    std::string help;
    for (const char c : text.substr(0, text.find_first_of(".:;(\n"))) {
        if (c != '\'' && c != '"' && c != '\\' && c != '`' && c != '$' && c != '[' && c != ']') help += c;
    }
    while (!help.empty() && help.back() == ' ')
        help.pop_back();
    return help;
}

std::vector<Word> options_of(const CLI::App& command) {
    std::vector<Word> words;
    for (const CLI::Option* option : command.get_options()) {
        if (option->get_group().empty()) continue; // hidden
        const bool takes_value = option->get_items_expected_max() > 0;
        for (const std::string& name : option->get_lnames())
            words.push_back({"--" + name, short_help(option->get_description()), takes_value});
        for (const std::string& name : option->get_snames())
            words.push_back({"-" + name, short_help(option->get_description()), takes_value});
    }
    return words;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
    std::vector<const CLI::App*> commands;
    for (const CLI::App* command : app.get_subcommands({})) {
        if (!command->get_group().empty()) commands.push_back(command);
    }
    return commands;
}

std::string names(const std::vector<Word>& words) {
    std::string text;
    for (const Word& word : words)
        text += (text.empty() ? "" : " ") + word.name;
    return text;
}

std::string for_bash(const CLI::App& app) {
    std::string cases;
    std::string all;
    for (const CLI::App* command : commands_of(app)) {
        all += " " + command->get_name();
        cases += "    " + command->get_name() + ") words='" + names(options_of(*command)) + "' ;;\n";
    }
    return "# bash completion of lathe: . <(lathe completion bash), or into /etc/bash_completion.d/lathe\n"
           "_lathe() {\n"
           "  local word=${COMP_WORDS[COMP_CWORD]} words\n"
           "  COMPREPLY=()\n"
           "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "    COMPREPLY=($(compgen -W '" +
           all.substr(1) + " " + names(options_of(app)) +
           "' -- \"$word\"))\n"
           "    return\n"
           "  fi\n"
           "  case ${COMP_WORDS[1]} in\n" +
           cases +
           "  esac\n"
           "  # Everything else is a file or a folder, which bash adds itself.\n"
           "  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$word\")); fi\n"
           "}\n"
           "complete -o default -o bashdefault -F _lathe lathe\n";
}

std::string for_zsh(const CLI::App& app) {
    std::string commands;
    std::string cases;
    for (const CLI::App* command : commands_of(app)) {
        commands += "    '" + command->get_name() + ":" + short_help(command->get_description()) + "'\n";
        cases += "    " + command->get_name() + ") _arguments";
        for (const Word& word : options_of(*command))
            cases +=
                " \\\n      '" + word.name + "[" + word.help + "]" + (word.takes_value ? ":value:_files" : "") + "'";
        cases += " \\\n      '*:file:_files' ;;\n";
    }
    return "#compdef lathe\n"
           "# zsh completion of lathe: into a folder of $fpath, as _lathe\n"
           "_lathe() {\n"
           "  local -a commands\n"
           "  commands=(\n" +
           commands +
           "  )\n"
           "  if (( CURRENT == 2 )); then\n"
           "    _describe command commands\n"
           "    return\n"
           "  fi\n"
           "  local command=$words[2]\n"
           "  shift words\n"
           "  (( CURRENT-- ))\n"
           "  case $command in\n" +
           cases +
           "  esac\n"
           "}\n"
           "if [ \"$funcstack[1]\" = _lathe ]; then _lathe \"$@\"; else compdef _lathe lathe; fi\n";
}

std::string for_fish(const CLI::App& app) {
    std::string text = "# fish completion of lathe: into ~/.config/fish/completions/lathe.fish\n";
    for (const CLI::App* command : commands_of(app)) {
        const std::string& name = command->get_name();
        text += "complete -c lathe -n __fish_use_subcommand -f -a " + name + " -d '" +
                short_help(command->get_description()) + "'\n";
        for (const Word& word : options_of(*command)) {
            const bool is_long = word.name.starts_with("--");
            text += "complete -c lathe -n '__fish_seen_subcommand_from " + name + "' " +
                    (is_long ? "-l " + word.name.substr(2) : "-s " + word.name.substr(1)) +
                    (word.takes_value ? " -r" : "") + " -d '" + word.help + "'\n";
        }
    }
    return text;
}

} // namespace

void add_completion(Commands& commands) {
    auto shell = std::make_shared<std::string>();
    Context& context = commands.context();
    auto self = std::make_shared<const CLI::App*>();
    CLI::App& command = commands.add(
        {"completion",
         "Print what makes a shell complete commands and options",
         {". <(lathe completion bash)", "lathe completion zsh > ~/.zfunc/_lathe",
          "lathe completion fish > ~/.config/fish/completions/lathe.fish"}},
        [&context, shell, self]() -> Result<void> {
            const CLI::App& app = *(*self)->get_parent();
            const std::string text = *shell == "bash" ? for_bash(app) : *shell == "zsh" ? for_zsh(app) : for_fish(app);
            context.print(text.substr(0, text.size() - 1));
            context.print_json({{"kind", "completion"}, {"version", 1}, {"shell", *shell}, {"script", text}});
            return {};
        });
    *self = &command;
    command.add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

} // namespace lathe::cli
