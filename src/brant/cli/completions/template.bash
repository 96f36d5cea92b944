# Completion of brant for bash. Put this into ~/.bashrc:
#     source <(brant completion bash)

# What a command takes: subcommands, options, those of them that have a value and of which kind, and the kinds of what
# stands at its places.
_brant_command() {
    commands='' options='' values='' places=''
    case $1 in
@COMMANDS@
    esac
}

_brant_queues() {
    local database
    # Asked for first: 'brant list' would make a database where there is none.
    database=$(brant "$@" config 2>/dev/null </dev/null | awk -F '\t' '$1 == "database" { print $2 }')
    if [[ -e $database ]]; then
        # Names that would need quotes are left out.
        brant "$@" list --stats 2>/dev/null </dev/null | awk -F ': ' '$1 ~ /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/ { print $1 }'
    fi
}

_brant_kind_of_value() {
    local pair
    for pair in $values; do
        if [[ ${pair%%=*} == "$1" ]]; then
            kind=${pair#*=}
        fi
    done
}

_brant_kind_of_place() {
    local kinds last=${places##* }
    read -r -a kinds <<<"$places"
    if (($1 < ${#kinds[@]})); then
        last=${kinds[$1]}
    elif [[ $last != *... ]]; then
        last=''
    fi
    place_kind=${last%...}
}

_brant_offer() {
    local match
    while IFS= read -r match; do
        COMPREPLY+=("$match")
    done < <(compgen "$@" -- "$current")
}

_brant() {
    local IFS=$' \t\n' current=${COMP_WORDS[COMP_CWORD]} path='' kind='' place=0 place_kind word index
    local commands options values places database=()
    COMPREPLY=()
    _brant_command ''
    for ((index = 1; index < COMP_CWORD; index++)); do
        word=${COMP_WORDS[index]}
        if [[ $word == [=@] ]]; then
            continue # of '--file=x' and '@alias', from which readline makes several words
        elif [[ -n $kind ]]; then
            if [[ -z $path ]]; then
                database+=("${word/#\~\//$HOME/}")
            fi
            kind=''
        elif [[ $word == -?* ]]; then
            _brant_kind_of_value "$word"
            if [[ -z $path && -n $kind ]]; then
                database+=("$word")
            fi
        elif [[ " $commands " == *" $word "* ]]; then
            path="${path:+$path }$word"
            _brant_command "$path"
        else
            place=$((place + 1))
        fi
    done
    if [[ $current == '=' ]]; then
        current=''
    fi
    if [[ -z $kind ]]; then
        _brant_kind_of_place "$place"
        if [[ $current == -* && $place_kind != data && $place_kind != file ]]; then
            _brant_offer -W "$options"
            return
        elif [[ -n $commands ]]; then
            _brant_offer -W "$commands"
            return
        fi
        kind=$place_kind
    fi
    case $kind in
    queue) _brant_offer -W "$(_brant_queues "${database[@]}")" ;;
    command) _brant_offer -c ;;
    file)
        compopt -o filenames 2>/dev/null
        _brant_offer -f
        ;;
    directory)
        compopt -o filenames 2>/dev/null
        _brant_offer -d
        ;;
    *'|'*) _brant_offer -W "${kind//|/ }" ;;
    esac
}

complete -F _brant brant
