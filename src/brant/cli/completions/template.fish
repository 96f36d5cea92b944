# Completion of brant for fish. Save it:
#     brant completion fish > ~/.config/fish/completions/brant.fish

# The options of a command that take a value.
function __brant_valued
    switch "$argv[1]"
@VALUED@
    end
end

# Sets the command that the cursor is in, how many of its arguments stand before the cursor, and which database is meant.
function __brant_look --no-scope-shadowing
    set path
    set place 0
    set database
    set -l words (commandline -opc)
    set -l index 2
    while test $index -le (count $words)
        set -l word $words[$index]
        if contains -- $word (__brant_valued "$path")
            set index (math $index + 1)
            test -z "$path"; and set -a database $word $words[$index]
        else if contains -- (string join -- ' ' $path $word) $__brant_commands
            set -a path $word
        else if not string match -q -- '-?*' $word
            set place (math $place + 1)
        else if test -z "$path"; and string match -qr -- '^--(dir|file)=' $word
            set -a database $word
        end
        set index (math $index + 1)
    end
    set path (string join -- ' ' $path)
end

function __brant_in
    set -l path
    set -l place
    set -l database
    __brant_look
    test "$path" = "$argv[1]"; and begin
        test (count $argv) -eq 1; or test $place -eq $argv[2]; or test "$argv[3]" = ... -a $place -ge $argv[2]
    end
end

function __brant_queues
    set -l path
    set -l place
    set -l database
    __brant_look
    # Asked for first: 'brant list' would make a database where there is none.
    set -l file (brant $database config 2>/dev/null </dev/null | awk -F '\t' '$1 == "database" { print $2 }')
    if test -e "$file"
        # Names that would need quotes are left out.
        brant $database list --stats 2>/dev/null </dev/null |
            awk -F ': ' '$1 ~ /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/ { print $1 }'
    end
end

set -g __brant_commands @NAMES@

complete -c brant -f
@COMPLETIONS@
