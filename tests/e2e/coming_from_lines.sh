# The tables of docs/coming-from.md. Sourced.

# lines COLUMN SECTION: the commands there, one a line.
lines() {
	awk -F ' [|] ' -v column="$1" -v section="## $2" '
		/^## / { on = $0 == section }
		on && /^[|] `/ {
			gsub(/\\[|]/, "|", $column)
			gsub(/^[|]? *`|`$/, "", $column)
			print $column
		}
	' "$(dirname "$script")/../../docs/coming-from.md"
}
