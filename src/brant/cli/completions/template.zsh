#compdef brant
# Completion of brant for zsh. Save it as _brant in a directory of $fpath, or put this into ~/.zshrc, behind compinit:
#     source <(brant completion zsh)

_brant_queues() {
    local file expl
    local -a queues
    # Asked for first: 'brant list' would make a database where there is none.
    file=$(brant $database config 2>/dev/null </dev/null | awk -F '\t' '$1 == "database" { print $2 }')
    if [[ -e $file ]]; then
        # Names that would need quotes are left out.
        queues=(${(f)"$(brant $database list --stats 2>/dev/null </dev/null |
            awk -F ': ' '$1 ~ /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/ { print $1 }')"})
    fi
    _wanted queues expl queue compadd -a queues
}

_brant_command_to_run() {
    if [[ $words[1] == -- ]]; then
        shift words
        ((CURRENT--))
    fi
    _normal
}

@FUNCTIONS@

_brant() {
    local curcontext=$curcontext option
    local -a line database known
    local -A opt_args
    known=(
@COMMANDS@
    )
    _arguments -C -A '-*' \
@OPTIONS@
        '1: :{ _describe command known }' \
        '*:: :->command' && return
    for option in -d --dir -f --file; do
        if (($+opt_args[$option])); then
            database+=($option ${(Q)opt_args[$option]})
        fi
    done
    if (($+functions[_brant_$words[1]])); then
        _brant_$words[1]
    fi
}

if [[ $funcstack[1] == _brant ]]; then
    _brant "$@"
else
    compdef _brant brant
fi
