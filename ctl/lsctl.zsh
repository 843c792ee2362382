#compdef lsctl
# Completion of lsctl for zsh: lsctl itself knows the words that may stand there.
local word
local -a found
for word in "${(@f)$(${words[1]} __complete "${(@)words[2,CURRENT]}" 2> /dev/null)}"; do
	case $word in
	:files) _files ;;
	:directories) _files -/ ;;
	:commands) _command_names -e ;;
	?*) found+=("$word") ;;
	esac
done
(( $#found == 0 )) || compadd -- "${found[@]}"
