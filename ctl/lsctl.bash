# Completion of lsctl for bash: lsctl itself knows the words that may stand there.
_lsctl() {
	local word current=${COMP_WORDS[COMP_CWORD]}
	COMPREPLY=()
	[ "$current" != = ] || current=
	while IFS= read -r word; do
		case $word in
		:files)
			compopt -o filenames 2> /dev/null
			while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
			;;
		:directories)
			compopt -o filenames 2> /dev/null
			while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -d -- "$current")
			;;
		:commands)
			while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -c -- "$current")
			;;
		*=)
			compopt -o nospace 2> /dev/null
			COMPREPLY+=("$word")
			;;
		*) COMPREPLY+=("$word") ;;
		esac
	done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2> /dev/null)
}
complete -F _lsctl lsctl
