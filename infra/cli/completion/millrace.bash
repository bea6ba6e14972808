# Completion of millrace for bash: source <(millrace completion bash)
_millrace() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files) compopt -o default ;;
      :folders) compopt -o dirnames ;;
      *) COMPREPLY+=("${line%%$'\t'*}") ;;
    esac
  done < <(millrace complete bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _millrace millrace
