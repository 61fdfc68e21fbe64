#include "harness/front/cli/completions.h"

#include <algorithm>
#include <map>
#include <string>

#include "harness/front/cli/help.h"
#include "harness/front/text/text.h"

namespace dpbench {
namespace {

// Returns the allowed values of a flag whose type is a choice such as "auto|github|none"; empty for flags of other
// types.
std::vector<std::string> choices_of(const Flag& flag) {
  const auto is_choice = [](char character) {
    return character == '|' || (character >= 'a' && character <= 'z') || (character >= '0' && character <= '9');
  };
  if (flag.type.find('|') == std::string::npos || !std::all_of(flag.type.begin(), flag.type.end(), is_choice))
    return {};
  return split(flag.type, '|');
}

bool takes_file(const Flag& flag) {
  for (const char* type : {"FILE", "DIR", "PATH", "PROGRAM", "PROGRAM|DIR"})
    if (flag.type == type) return true;
  return false;
}

// Returns the topic T for which `dpbench list T` prints the flag's allowed values; empty if there is no such topic.
std::string listed_topic(const Flag& flag) {
  static const std::map<std::string, std::string> topics = {
      {"strategy", "strategies"}, {"workload", "workloads"}, {"backend", "backends"}};
  const auto found = topics.find(flag.name);
  return found == topics.end() ? "" : found->second;
}

std::string first_words(const std::string& text) { return text.substr(0, text.find(" [")); }

std::string bash_value(const Flag& flag) {
  const std::string topic = listed_topic(flag);
  // In a comma-separated list such as "ddp,zer", the completion script completes the last name and keeps the names
  // before it.
  if (!topic.empty())
    return "local list=; [[ $cur == *,* ]] && list=${cur%,*},; "
           "COMPREPLY=($(compgen -P \"$list\" -W \"$(_dpbench_names " +
           topic + ")\" -- \"${cur##*,}\"))";
  if (const auto choices = choices_of(flag); !choices.empty())
    return "COMPREPLY=($(compgen -W '" + join(choices, " ") + "' -- \"$cur\"))";
  return takes_file(flag) ? "COMPREPLY=($(compgen -f -- \"$cur\"))" : "COMPREPLY=()";
}

// Shell function that prints the first column of `dpbench list TOPIC`, without the title and header lines.
constexpr char names_function[] =
    "_dpbench_names() { dpbench list \"$1\" 2>/dev/null | awk 'NR > 2 && $1 { print $1 }'; }\n";

// Returns the text in single quotes, escaped for zsh and fish.
std::string single_quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

std::string zsh_spec(const Flag& flag) {
  const std::string help = replaced(replaced(first_words(flag.help), "[", "\\["), "]", "\\]");
  if (flag.positional) {
    const auto choices = choices_of(flag);
    return single_quoted("*:" + flag.type + ":" + (choices.empty() ? "_files" : "(" + join(choices, " ") + ")"));
  }
  std::string spec = "--" + flag.name + "[" + help + "]";
  if (flag.type.empty()) return single_quoted(spec);
  std::string action = takes_file(flag) ? "_files" : " ";
  if (const std::string topic = listed_topic(flag); !topic.empty())
    action = "{compadd $(_dpbench_names " + topic + ")}";
  if (const auto choices = choices_of(flag); !choices.empty()) action = "(" + join(choices, " ") + ")";
  return single_quoted(spec + ":" + replaced(flag.type, ":", "\\:") + ":" + action);
}

std::string fish_flag(const Flag& flag, const std::string& condition) {
  std::string line = "complete -c dpbench -n " + single_quoted(condition) + " -l " + flag.name;
  if (!flag.short_name.empty()) line += " -s " + flag.short_name;
  if (!flag.type.empty()) line += takes_file(flag) ? " -r -F" : " -x";
  if (const std::string topic = listed_topic(flag); !topic.empty()) line += " -a '(_dpbench_names " + topic + ")'";
  if (const auto choices = choices_of(flag); !choices.empty()) line += " -a " + single_quoted(join(choices, " "));
  return line + " -d " + single_quoted(first_words(flag.help)) + "\n";
}

std::string fish_arguments(const Flag& flag, const std::string& condition) {
  const auto choices = choices_of(flag);
  if (choices.empty()) return "";
  return "complete -c dpbench -f -n " + single_quoted(condition) + " -a " + single_quoted(join(choices, " ")) + "\n";
}

}  // namespace

std::string bash_completions(const std::vector<Command>& commands) {
  std::string words, cases;
  for (const Command& command : commands) {
    words += (words.empty() ? "" : " ") + command.name;
    std::string names, values, words_of_command;
    for (const Flag& flag : flags_of(commands, command)) {
      if (flag.positional) {
        words_of_command = join(choices_of(flag), " ");
        continue;
      }
      names += (names.empty() ? "--" : " --") + flag.name;
      if (flag.type.empty()) continue;
      const std::string either = (flag.short_name.empty() ? "" : "-" + flag.short_name + "|") + "--" + flag.name;
      values += "        " + either + ") " + bash_value(flag) + "; return ;;\n";
    }
    cases += "    " + command.name + ")\n      case $prev in\n" + values + "      esac\n      flags='" + names +
             "' arguments='" + words_of_command + "' ;;\n";
  }
  return "# bash completion of dpbench " DPBENCH_VERSION "\n" + std::string(names_function) +
         "_dpbench() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} flags= "
         "arguments=\n"
         "  local commands='" +
         words +
         "'\n"
         "  [[ \" $commands \" == *\" $command \"* ]] || command=" +
         commands.front().name +
         "\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "  if [[ $COMP_CWORD == 1 && $cur != -* ]]; then COMPREPLY=($(compgen -W \"$commands\" -- \"$cur\"))\n"
         "  elif [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
         "  elif [[ $arguments ]]; then COMPREPLY=($(compgen -W \"$arguments\" -- \"$cur\"))\n"
         "  else COMPREPLY=($(compgen -f -- \"$cur\")); fi\n"
         "}\n"
         "complete -F _dpbench dpbench\n";
}

std::string zsh_completions(const std::vector<Command>& commands) {
  std::string described, cases;
  for (const Command& command : commands) {
    described += "    " + single_quoted(command.name + ":" + replaced(command.summary, ":", "\\:")) + "\n";
    cases += "    " + command.name + ")\n      _arguments";
    for (const Flag& flag : flags_of(commands, command)) cases += " \\\n        " + zsh_spec(flag);
    cases += " ;;\n";
  }
  return "#compdef dpbench\n# zsh completion of dpbench " DPBENCH_VERSION "\n" + std::string(names_function) +
         "_dpbench() {\n"
         "  local -a commands\n  commands=(\n" +
         described +
         "  )\n"
         "  local command=${words[2]}\n"
         "  if (( CURRENT == 2 )) && [[ $PREFIX != -* ]]; then _describe command commands; return; fi\n"
         "  if [[ $command == -* || -z $command ]]; then command=" +
         commands.front().name +
         "\n"
         "  else words=(\"${words[1]}\" \"${(@)words[3,-1]}\"); (( CURRENT-- )); fi\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _dpbench ]]; then _dpbench \"$@\"; else compdef _dpbench dpbench; fi\n";
}

std::string fish_completions(const std::vector<Command>& commands) {
  std::string text =
      "# fish completion of dpbench " DPBENCH_VERSION
      "\n"
      "function _dpbench_names; dpbench list $argv[1] 2>/dev/null | awk 'NR > 2 && $1 { print $1 }'; end\n";
  std::string others;
  for (const Command& command : commands)
    if (!is_first(commands, command)) others += (others.empty() ? "" : " ") + command.name;
  for (const Command& command : commands) {
    text += "complete -c dpbench -f -n __fish_use_subcommand -a " + command.name + " -d " +
            single_quoted(command.summary) + "\n";
    const std::string condition = is_first(commands, command) ? "not __fish_seen_subcommand_from " + others
                                                              : "__fish_seen_subcommand_from " + command.name;
    for (const Flag& flag : flags_of(commands, command))
      text += flag.positional ? fish_arguments(flag, condition) : fish_flag(flag, condition);
  }
  return text;
}

}  // namespace dpbench
