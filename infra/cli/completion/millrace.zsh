#compdef millrace
# Completion of millrace for zsh, after compinit: source <(millrace completion zsh)
_millrace() {
  local line
  local -a candidates
  while IFS= read -r line; do
    case $line in
      :files) compset -P 1 '--*='; _files; return ;;
      :folders) compset -P 1 '--*='; _files -/; return ;;
      *) candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
    esac
  done < <(millrace complete zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  _describe millrace candidates
}
# As a file `_millrace` of fpath this is the body of the function itself.
if [[ $funcstack[1] == _millrace ]]; then
  _millrace "$@"
else
  compdef _millrace millrace
fi
