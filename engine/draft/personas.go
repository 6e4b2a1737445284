package draft

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"conclave/engine/text"
)

// maxPersona bounds a persona, in bytes.
const maxPersona = 2 << 10

// The diversity modes, as in the configuration.
const (
	perspective    = "perspective"
	implementation = "implementation"
	methodology    = "methodology"
)

// differences describe, for each mode, how personas differ.
var differences = map[string]string{
	perspective:    "The personas look at the task from different points of view: whom they think of, what they value, what they distrust.",
	implementation: "The personas prefer different kinds of solution: other structures, materials, styles or technical means, each of which can fulfil the task.",
	methodology:    "The personas work in different ways: in which order they proceed, how they search, when and how they check.",
}

const personasSystem = `You give each member of a team a persona for one task, so that their first attempts differ in substance. You do not solve the task.

- A persona is addressed to its member (you …), has two to four sentences, and says what to do differently, not who to be: no names, no biographies, no flattery.
- Every persona serves the whole task. None is told to oppose, to joke, or to leave a part out.
- No two personas could lead to the same first attempt.`

// Personas is the form that requests a persona for each of n agents, in the order of their
// numbers.
func Personas(task string, n int, mode string) Form[[]string] {
	properties := map[string]schema{}
	for _, name := range agentNames(n) {
		properties[name] = str("The persona of " + name + ".")
	}
	user := fmt.Sprintf("# The task\n\n%s\n\n# Your turn\n\nWrite a persona for each of %s. %s", task, strings.Join(agentNames(n), ", "), differences[mode])
	return Form[[]string]{
		Request:  request("personas", "A persona for each member of the team.", object(properties, agentNames(n)...), personasSystem, user),
		Parse:    func(raw json.RawMessage) ([]string, error) { return parsePersonas(raw, n) },
		Fallback: builtinPersonas(n, mode),
	}
}

func parsePersonas(raw json.RawMessage, n int) ([]string, error) {
	return perAgent(raw, n, func(value json.RawMessage) (string, error) {
		var persona string
		if json.Unmarshal(value, &persona) != nil || strings.TrimSpace(persona) == "" {
			return "", errors.New("the persona is no text")
		}
		return text.Truncate(strings.TrimSpace(persona), maxPersona), nil
	})
}

// builtinPersonas returns generic personas, in turn, for a team whose generator failed.
func builtinPersonas(n int, mode string) []string {
	set := generic[mode]
	if len(set) == 0 {
		set = generic[perspective]
	}
	personas := make([]string, n)
	for i := range personas {
		personas[i] = set[i%len(set)]
	}
	return personas
}

// generic are the fallback personas by mode.
var generic = map[string][]string{
	perspective: {
		"Think of the person who will use the result today. Ask at every choice what helps them at once, and what would trip them up.",
		"Look for what is true before what is convenient. Take no claim on trust, and prefer a modest answer that holds to a brilliant one that may not.",
		"Think of the one who has to maintain the result for years. Favour what stays simple when circumstances change.",
		"Look for the possibility that others pass over. Consider at least one approach that would surprise the person who asked.",
		"Think of everything that can go wrong. Take the worst input, the hostile reader and the unlucky day as your measure.",
	},
	implementation: {
		"Prefer the smallest solution that fulfils the task, made of the fewest parts that everybody knows.",
		"Prefer a solution with a clear structure of separate parts, each of which can be replaced alone.",
		"Prefer a solution in which data and rules are stated openly and a small mechanism applies them.",
		"Prefer a solution that shows something concrete early and grows by examples.",
		"Prefer a solution that stands on proven existing means and adds only what they lack.",
	},
	methodology: {
		"Work from the top down: settle the outline of the whole first, then refine each part in turn.",
		"Work on the riskiest point first: find what could sink the attempt, settle that, and only then do the rest.",
		"Work from examples: solve two concrete cases by hand before you generalize.",
		"Work backwards: describe the finished result and its test, then derive what has to be done.",
		"Work in rounds: make a rough whole quickly, check it against the task, and improve its weakest part each time.",
	},
}
