package coordination

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

var update = flag.Bool("update", false, "rewrite the expected commands of the scripted sessions")

// TestScripts plays the sessions of testdata. A script is a sequence of blocks: events
// that happened together, "----", and the resulting commands. testdata/README.md
// describes its language.
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

// playScript plays the events of a script and returns the script with the resulting commands.
func playScript(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	var p *player
	expected, played := false, 0
	for line := range strings.Lines(text + "\n\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "----":
			require.NotNil(t, p, "the first block of a script starts the team")
			out.WriteString("----\n" + p.drainText())
			expected = true
		case line == "":
			out.WriteString("\n")
			require.True(t, expected || played == 0, "----, which the commands follow, is missing below a block of events")
			expected, played = false, 0
		case strings.HasPrefix(line, "#"):
			out.WriteString(line + "\n")
		case expected: // replaced by the actual commands
		default:
			out.WriteString(line + "\n")
			played++
			if verb, rest, _ := strings.Cut(line, " "); verb == "team" {
				p = parseTeam(t, rest)
			} else {
				require.NotNil(t, p, "the first block of a script starts the team")
				p.step(parseEvent(t, p, verb, rest))
			}
		}
	}
	return strings.TrimSuffix(out.String(), "\n\n")
}

// options are the key=value words of a line. Each must be read once; an unread one is a mistake in
// the script.
type options map[string]string

func (o options) text(key, otherwise string) string {
	value, given := o[key]
	if !given {
		return otherwise
	}
	delete(o, key)
	return value
}

func (o options) number(t *testing.T, key string, otherwise int) int {
	t.Helper()
	n, err := strconv.Atoi(o.text(key, strconv.Itoa(otherwise)))
	require.NoError(t, err, key)
	return n
}

func (o options) decimal(t *testing.T, key string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(o.text(key, "0"), 64)
	require.NoError(t, err, key)
	return n
}

// decimals returns the numbers of an option of the form agent_a:0.5,agent_b:0.6.
func (o options) decimals(t *testing.T, key string) map[string]float64 {
	t.Helper()
	numbers := map[string]float64{}
	for _, part := range o.list(key) {
		name, text, _ := strings.Cut(part, ":")
		n, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err, key)
		numbers[name] = n
	}
	return numbers
}

// threshold returns an option of the form share,agreement:0.8.
func (o options) threshold(t *testing.T, key string) *Threshold {
	t.Helper()
	parts, text, given := strings.Cut(o.text(key, ""), ":")
	if !given {
		return nil
	}
	least, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err, key)
	return &Threshold{Parts: strings.Split(parts, ","), Least: least}
}

func (o options) flag(t *testing.T, key string) bool {
	t.Helper()
	yes, err := strconv.ParseBool(o.text(key, "false"))
	require.NoError(t, err, key)
	return yes
}

// list returns the parts of an option that are separated by commas.
func (o options) list(key string) []string {
	text := o.text(key, "")
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// words returns an option with its underscores replaced by blanks.
func (o options) words(key string) string { return strings.ReplaceAll(o.text(key, ""), "_", " ") }

// parseTeam parses settings, which have the names of a team file.
func parseTeam(t *testing.T, text string) *player {
	t.Helper()
	agents, o := parseWords(text)
	config := Config{
		Agents:           agents,
		OnSplit:          o.text("on_split", ""),
		MaxRevotes:       o.number(t, "max_revotes", 1),
		MaxStepsPerAgent: o.number(t, "max_steps_per_agent", 12),
		OnAgentFailure:   o.text("on_agent_failure", ""),

		Mode:   o.text("coordination_mode", ""),
		Pacing: o.text("pacing", ""),

		Updates:         o.text("update_mode", ""),
		DeferUpdates:    o.flag(t, "defer_peer_updates_until_restart"),
		BeforeChecklist: o.flag(t, "allow_midstream_peer_updates_before_checklist_submit"),
		UpdatesPerStep:  o.number(t, "max_midstream_injections_per_round", 0),
		AnswersPerAgent: o.number(t, "max_new_answers_per_agent", 0),
		AnswersGlobal:   o.number(t, "max_new_answers_global", 0),
		DeferVoting:     o.flag(t, "defer_voting_until_all_answered"),
		SkipVoting:      o.flag(t, "skip_voting"),
		MinActive:       o.number(t, "min_active_agents", 0),
		Secluded:        o.text("peer_visibility", "all") == "none",
		Solo:            o.flag(t, "allow_solo_refinement"),
		Agree:           o.text("agree", ""),
		MaxRounds:       o.number(t, "max_rounds", 0),
		Quorum:          o.text("decide_when", "all") == "quorum",
		QuorumGrace:     o.number(t, "quorum_grace_seconds", 0),
		Start:           o.number(t, "team_start", 0),
		Grow:            o.number(t, "team_step", 0),
		Early:           o.flag(t, "early_agreement"),
		Ballot:          o.text("ballot", ""),
		Checks:          o.list("user_checks"),
		ShowChecks:      o.flag(t, "show_checks"),
		MinSupport:      o.decimal(t, "min_support"),
		Promise:         o.threshold(t, "promise"),
		Skill:           o.decimals(t, "skill"),

		Strategy:         o.text("final_answer_strategy", ""),
		SkipPresentation: o.flag(t, "skip_final_presentation"),
		Presenter:        o.text("presenter_agent", ""),
		MaxRestarts:      o.number(t, "max_orchestration_restarts", 0),

		Budget: Allowance{USD: o.decimal(t, "max_cost_usd"), Tokens: int64(o.number(t, "max_total_tokens", 0))},
	}
	if lead := o.number(t, "fairness_lead_cap_answers", -1); lead >= 0 {
		config.LeadCap = &lead
	}
	require.Empty(t, o, "no such setting")
	return playerOf(New(config))
}

func parseEvent(t *testing.T, p *player, verb, text string) Event {
	t.Helper()
	words, o := parseWords(text)
	switch verb {
	case "finish":
		return Finish{}
	case "time_short":
		return TimeShort{}
	case "time_up":
		return TimeUp{}
	case "waited":
		return Waited{}
	case "checked":
		require.Len(t, words, 2, "checked needs a check's ID and its verdicts")
		return Checked{ID: LaunchID(words[0]), Verdicts: words[1]}
	case "cancel":
		return CancelRequested{}
	case "reopen":
		return Reopened{Run: "run", Agent: strings.Join(words, ""), Text: o.words("say")}
	case "pause":
		return Pause{}
	case "resume":
		return Resume{}
	case "retry":
		return Retry{Agent: strings.Join(words, "")}
	case "say":
		return Said{Agent: o.text("to", ""), Text: strings.Join(words, " ")}
	}
	require.NotEmpty(t, words, "%s needs an agent", verb)
	e := parseEnd(t, p, verb, words, o)
	require.NotNil(t, e, "no such verb: %s", verb)
	require.Empty(t, o, "no such option")
	return e
}

// parseEnd parses the end of a step.
func parseEnd(t *testing.T, p *player, verb string, words []string, o options) Event {
	t.Helper()
	id := p.launchOf(words[0])
	switch verb {
	case "out":
		return ModelReport{Launch: id, Out: &Doing{What: "the model does not reply"}}
	case "back":
		return ModelReport{Launch: id}
	}
	step := o.number(t, "step", p.nextStep(id))
	usage := parseUsage(t, o)
	switch verb {
	case "fail":
		cause := Failure{Type: "overloaded", Message: "the model was overloaded"}
		return Failed{
			End: End{Launch: id, Step: step, Usage: usage}, Cause: cause, Token: tokenOf(id), Outage: Outage(o.text("outage", "")),
		}
	case "suspend":
		return Suspended{End: End{Launch: id, Step: step, Usage: usage}, Token: tokenOf(id)}
	case "restart":
		return Restarted{End: End{Launch: id, Step: step, Usage: usage}}
	case "exhaust":
		return Exhausted{End: End{Launch: id, Step: step, Usage: usage}}
	case "evaluated":
		require.Len(t, words, 2, "evaluated needs submit or again")
		require.Contains(t, []string{"submit", "again"}, words[1])
		return Evaluated{End: End{Launch: id, Step: step, Usage: usage}, Again: words[1] == "again", Reason: o.words("because")}
	}
	seen, heard := parseWitness(t, p, id, o)
	switch verb {
	case "answer", "present":
		text, line := o.text("text", ""), o.text("line", "")
		digest := Digest{Exact: text, Normalized: strings.ToLower(text), ExactLine: line, NormalizedLine: line}
		return Answered{End: End{Launch: id, Step: step, Usage: usage}, Seen: seen, Heard: heard, Digest: digest, Checks: o.list("checks")}
	case "vote":
		require.Len(t, words, 2, "vote needs a target")
		var sure *float64
		if _, given := o["sure"]; given {
			sure = new(o.decimal(t, "sure"))
		}
		return Voted{
			End: End{Launch: id, Step: step, Usage: usage}, Choice: Choice{Target: words[1], TargetLabel: o.text("named", ""), Reason: o.words("because"), Confidence: sure},
			Seen: seen, Heard: heard,
		}
	case "stop":
		status := StopStatus(o.text("status", string(Complete)))
		return Stopped{End: End{Launch: id, Step: step, Usage: usage}, Status: status, Summary: o.words("because"), Seen: seen, Heard: heard}
	}
	return nil
}

// parseWitness parses the answers and messages known to a step: those of its launch and, with
// saw=bell, those of the bell.
func parseWitness(t *testing.T, p *player, id LaunchID, o options) (seen []Seen, heard int) {
	t.Helper()
	seen, heard = p.shownTo(id), p.lastMessage(id)
	switch saw, given := o["saw"]; {
	case saw == "bell":
		seen, heard = p.witnessed(id)
	case given:
		seen = parseSeen(t, saw)
	}
	delete(o, "saw")
	return seen, o.number(t, "heard", heard)
}

func parseUsage(t *testing.T, o options) llm.Usage {
	t.Helper()
	tokens, usd := o.number(t, "tokens", 0), o.decimal(t, "usd")
	if tokens == 0 && usd == 0 {
		return llm.Usage{}
	}
	return llm.Usage{InputTokens: int64(tokens), TotalUSD: &usd, ModelCalls: 1}
}

func parseSeen(t *testing.T, text string) []Seen {
	t.Helper()
	var seen []Seen
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		agent, step, _ := strings.Cut(pair, ":")
		n, err := strconv.Atoi(step)
		require.NoError(t, err)
		seen = append(seen, Seen{Agent: agent, Step: n})
	}
	return seen
}

func parseWords(text string) (words []string, o options) {
	o = options{}
	for _, word := range strings.Fields(text) {
		if key, value, found := strings.Cut(word, "="); found {
			o[key] = value
			continue
		}
		words = append(words, word)
	}
	return words, o
}

// drainText drains, and returns the notes and the commands. If a session has no commands, it also
// returns why the session waits.
func (p *player) drainText() string {
	before := p.notes()
	commands := p.drain()
	out := []string{}
	for _, command := range commands {
		out = append(out, describe(command)...)
	}
	v := p.state.View()
	switch {
	case v.Paused:
		out = append(out, "(paused)")
	case v.Parked != nil:
		out = append(out, "(parked: "+*v.Parked+")")
	}
	notes := append(before, p.notes()...) // Drain itself stops agents at their limit
	if len(notes)+len(out) == 0 {
		return "(wait)\n"
	}
	return strings.Join(slices.Concat(notes, out), "\n") + "\n"
}

// notes returns the new lines of the timeline that no command reports.
func (p *player) notes() []string {
	var notes []string
	for _, e := range p.state.Timeline() {
		silent := e.Kind == "ignored" || e.Kind == "refused" || e.Kind == "joined" || e.Kind == "away" || e.Kind == "back" || e.Kind == "checked" || e.Kind == "stopped" && e.Step == 0
		if e.Seq > p.noted && silent {
			notes = append(notes, fmt.Sprintf("note: %s", e.Text))
		}
	}
	p.noted = p.state.Events
	return notes
}
