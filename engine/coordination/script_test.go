package coordination_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	c "conclave/engine/coordination"
)

var update = flag.Bool("update", false, "rewrite the expected commands of the scripted sessions")

// TestScripts plays the sessions of testdata. A script is a sequence of blocks:
// what happened together, "----", and what the core made of it. Its verbs:
//
//	team AGENT… [key=value…]   start a session; the first block
//	answer WHO [step=N] [saw=AGENT:N,…]
//	vote WHO TARGET [step=N] [saw=AGENT:N,…] [named=LABEL] [because=WORDS]
//	fail WHO [step=N]
//	finish                     somebody asks for a decision now
//	time_up                    the session's time is over
//
// WHO is an agent, meaning its latest launch, or a launch such as l3. Without
// step and saw, a step takes the next number and saw what it was shown.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			played := playScript(t, string(text))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(played), 0o644))
				return
			}
			require.Equal(t, string(text), played, "go test -update rewrites the script; review the difference")
		})
	}
}

// playScript returns the script with the commands that its events lead to.
func playScript(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	var p *player
	expected := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "----":
			require.NotNil(t, p, "the first block of a script starts the team")
			out.WriteString("----\n" + p.drainText())
			expected = true
		case line == "":
			out.WriteString("\n")
			expected = false
		case strings.HasPrefix(line, "#"):
			out.WriteString(line + "\n")
		case expected: // replaced by what really follows
		default:
			out.WriteString(line + "\n")
			if verb, rest, _ := strings.Cut(line, " "); verb == "team" {
				p = newPlayer(parseTeam(t, rest))
			} else {
				require.NotNil(t, p, "the first block of a script starts the team")
				p.step(parseEvent(t, p, verb, rest))
			}
		}
	}
	return out.String()
}

func parseTeam(t *testing.T, text string) c.Config {
	t.Helper()
	words, options := parseWords(t, text)
	number := func(key string, otherwise int) int {
		if options[key] == "" {
			return otherwise
		}
		n, err := strconv.Atoi(options[key])
		require.NoError(t, err)
		return n
	}
	return c.Config{
		Agents:           words,
		OnSplit:          c.OnSplit(options["on_split"]),
		MaxRevotes:       number("max_revotes", 1),
		MaxStepsPerAgent: number("max_steps_per_agent", 12),
		OnAgentFailure:   c.OnAgentFailure(options["on_agent_failure"]),
	}
}

func parseEvent(t *testing.T, p *player, verb, text string) c.Event {
	t.Helper()
	words, options := parseWords(t, text)
	if verb == "finish" {
		return c.Finish{}
	}
	if verb == "time_up" {
		return c.TimeUp{}
	}
	require.NotEmpty(t, words, "%s needs an agent", verb)
	launch := p.launchOf(words[0])
	step, seen := p.nextStep(launch), p.sees(launch)
	if options["step"] != "" {
		n, err := strconv.Atoi(options["step"])
		require.NoError(t, err)
		step = n
	}
	if saw, given := options["saw"]; given {
		seen = parseSeen(t, saw)
	}
	switch verb {
	case "answer":
		return c.Answered{Launch: launch, Step: step, Seen: seen}
	case "vote":
		require.Len(t, words, 2, "vote needs a target")
		reason := strings.ReplaceAll(options["because"], "_", " ")
		return c.Voted{Launch: launch, Step: step, Target: words[1], TargetLabel: options["named"], Reason: reason, Seen: seen}
	case "fail":
		return c.Failed{Launch: launch, Step: step, Cause: c.Failure{Type: "overloaded", Message: "the model was overloaded"}}
	}
	require.Fail(t, "no such verb", verb)
	return nil
}

func parseSeen(t *testing.T, text string) []c.Seen {
	t.Helper()
	var seen []c.Seen
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		agent, step, _ := strings.Cut(pair, ":")
		n, err := strconv.Atoi(step)
		require.NoError(t, err)
		seen = append(seen, c.Seen{Agent: agent, Step: n})
	}
	return seen
}

func parseWords(t *testing.T, text string) (words []string, options map[string]string) {
	t.Helper()
	options = map[string]string{}
	for _, word := range strings.Fields(text) {
		if key, value, found := strings.Cut(word, "="); found {
			options[key] = value
			continue
		}
		words = append(words, word)
	}
	return words, options
}

// drainText drains and prints the commands, after notes on what did not count.
func (p *player) drainText() string {
	var out strings.Builder
	for _, e := range p.state.Timeline() {
		if e.Seq > p.noted && (e.Kind == c.EntryIgnored || e.Kind == c.EntryRefused) {
			fmt.Fprintf(&out, "note: %s\n", e.Text)
		}
	}
	for _, command := range p.drain() {
		out.WriteString(describe(command) + "\n")
	}
	if out.Len() == 0 {
		out.WriteString("(wait)\n")
	}
	p.noted = p.state.Events
	return out.String()
}

func describe(command c.Command) string {
	switch d := command.(type) {
	case c.Launch:
		return describeLaunch(d)
	case c.Cancel:
		return "cancel " + string(d.ID)
	case c.Record:
		e := d.Entry
		if e.Action == c.NewAnswer {
			return fmt.Sprintf("record %d: %s step %d answers %s", e.Seq, e.Agent, e.Step, e.Label)
		}
		return fmt.Sprintf("record %d: %s step %d votes for %s (%s), having seen %s", e.Seq, e.Agent, e.Step, e.Target, e.TargetLabel, describeSeen(e.Seen))
	case c.Done:
		if d.Decision.Winner == "" {
			return "done: " + string(d.Decision.Status)
		}
		votes := "no fresh votes"
		for i, n := range d.Decision.Votes {
			if i == 0 {
				votes = "votes"
			}
			votes += fmt.Sprintf(" %s:%d", n.Target, n.Votes)
		}
		return fmt.Sprintf("done: %s, %s with %s (step %d); %s", d.Decision.Status, d.Decision.Winner, d.Decision.WinnerLabel, d.Decision.WinnerStep, votes)
	}
	return fmt.Sprintf("unknown command %T", command)
}

func describeLaunch(l c.Launch) string {
	sees := "nothing"
	for i, shown := range l.Shown {
		if i == 0 {
			sees = ""
		}
		sees += " " + shown.Label
	}
	may := "may only answer"
	if len(l.Offered) == 2 {
		may = "may answer or vote"
	}
	if l.Revote {
		may += ", is told of a split vote"
	}
	return fmt.Sprintf("round %d: launch %s of %s after step %d, sees %s, %s", l.Round, l.ID, l.Agent, l.After, strings.TrimSpace(sees), may)
}

func describeSeen(seen []c.Seen) string {
	if len(seen) == 0 {
		return "nothing"
	}
	words := make([]string, 0, len(seen))
	for _, n := range seen {
		words = append(words, fmt.Sprintf("%s:%d", n.Agent, n.Step))
	}
	return strings.Join(words, " ")
}
