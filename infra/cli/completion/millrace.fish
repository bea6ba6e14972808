# Completion of millrace for fish: millrace completion fish | source
function __millrace_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l assigned (string match -r -- '^--[^=]+=' "$current")
    set -l rest (string replace -r -- '^--[^=]+=' '' "$current")
    for line in (millrace complete fish -- $before[2..-1] "$current" 2>/dev/null)
        switch $line
            case :files
                string replace -r -- '^' "$assigned" (__fish_complete_path "$rest")
            case :folders
                string replace -r -- '^' "$assigned" (__fish_complete_directories "$rest" '')
            case '*'
                echo $line
        end
    end
end
complete -c millrace -f -a '(__millrace_complete)'
