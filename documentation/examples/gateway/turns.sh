#!/bin/sh
# A conversation of several turns over the Responses API, with curl, and Python for the JSON:
#
#     sh turns.sh "How many lines has notes.txt?" "And how many words?"
#
# Each argument is what the user says next. The model may call one tool, count, which this script runs with wc.
set -eu

url=${OPENAI_BASE_URL:-http://127.0.0.1:8080/v1}
model=${MODEL:-small-1}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The whole conversation, item by item, one in each line: nothing is stored behind the gateway.
items=$folder/items
: > "$items"

user() {
    python3 -c 'import json, sys; print(json.dumps({"role": "user", "content": sys.argv[1]}))' "$1" >> "$items"
}

ask() {
    python3 -c '
import json, sys
count = {
    "type": "function",
    "name": "count",
    "description": "Counts the lines or the words of a file.",
    "parameters": {
        "type": "object",
        "properties": {"file": {"type": "string"}, "what": {"enum": ["lines", "words"]}},
        "required": ["file", "what"],
    },
}
items = [json.loads(line) for line in sys.stdin]
print(json.dumps({"model": sys.argv[1], "input": items, "tools": [count], "store": False}))
' "$model" < "$items" > "$folder/request"
    curl --silent --show-error --fail-with-body --output "$folder/answer" \
        --header "Authorization: Bearer ${OPENAI_API_KEY:-none}" --header "Content-Type: application/json" \
        --data-binary "@$folder/request" "$url/responses" || { cat "$folder/answer" >&2; exit 1; }
    # What the model said joins the conversation as it is. What of it is for the user, and what for us, is kept apart.
    python3 -c '
import json, sys
folder = sys.argv[1]
output = json.load(open(f"{folder}/answer"))["output"]
with open(f"{folder}/items", "a") as items:
    for item in output:
        print(json.dumps(item), file=items)
for item in output:
    if item["type"] == "message":
        print("".join(part.get("text", "") for part in item["content"]))
# The gateway may have tools of its own: calls whose results are there have run.
done = {item["call_id"] for item in output if item["type"] == "function_call_output"}
with open(f"{folder}/calls", "w") as calls:
    for item in output:
        if item["type"] == "function_call" and item["call_id"] not in done:
            arguments = json.loads(item["arguments"])
            print(item["call_id"], arguments["what"], arguments["file"], sep="\t", file=calls)
' "$folder"
}

answer() {
    tab=$(printf '\t')
    while IFS="$tab" read -r call what file; do
        # A model chose these words: they are arguments here, and never commands.
        case $what in lines) option=-l ;; *) option=-w ;; esac
        result="There is no such file."
        [ -f "./$file" ] && result=$(wc "$option" < "./$file" | tr -d ' ')
        echo "> count $what of $file: $result"
        python3 -c '
import json, sys
print(json.dumps({"type": "function_call_output", "call_id": sys.argv[1], "output": sys.argv[2]}))
' "$call" "$result" >> "$items"
    done < "$folder/calls"
}

for text; do
    user "$text"
    ask
    while [ -s "$folder/calls" ]; do
        answer
        ask
    done
done
