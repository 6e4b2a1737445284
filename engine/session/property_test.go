package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

var shownForm = regexp.MustCompile(`(?m)^=== [0-9a-f]+ begin (agent([0-9]+)\.([0-9]+)) ===$`)

// For any news and any replies of the agent, no answer is shown twice, no answer replaces a newer
// one, updates show at most Most answers, and the step has witnessed exactly the content of its
// conversation. A step restored at any point of its journal continues in the same way.
func TestRules_properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{}
		task := atWork(w, func(task *task) { drawTask(t, task) })
		turns := drawTurns(t, w)
		p := play(t, t.Context(), task, turns...)

		requireKnownEnd(t, p.err)
		steps, heard, told := readShown(t, p.entries)
		seen, last := p.rules.witnessedSteps()
		require.Equal(t, steps, seen)
		require.Equal(t, heard, last)
		if task.Updates.Most > 0 {
			require.LessOrEqual(t, told, task.Updates.Most)
		}
		if task.Updates.Mode != coordination.Inject || len(task.Offered) == 1 && task.Offered[0] != coordination.NewAnswer {
			require.Zero(t, told)
		}
		requireVoteWasShown(t, p, seen)

		rules := newRules(task)
		for i, e := range p.entries {
			require.NoError(t, rules.Learn(t.Context(), e))
			if e.Kind == loop.Reply && i+1 < len(p.entries) {
				v := rules.Judge(e.Messages[0])
				if next := p.entries[i+1]; v.Action != nil && next.Kind != loop.Updated {
					review, err := rules.reviewAction(t.Context(), *v.Action)
					require.NoError(t, err)
					if review != nil {
						v = *review
					}
				}
				require.Equal(t, p.entries[i+1].Reason, v.Rejected, "judged as before")
			}
		}
		require.Equal(t, p.rules.Offer(), rules.Offer())
	})
}

func drawTask(t *rapid.T, task *task) {
	task.Updates.Mode = rapid.SampledFrom([]string{coordination.Inject, coordination.Inject, coordination.Restart, ""}).Draw(t, "mode")
	task.Updates.Most = rapid.IntRange(0, 3).Draw(t, "most")
	task.Updates.UntilChecklist = rapid.Bool().Draw(t, "until checklist")
	task.Offered = rapid.SampledFrom([][]coordination.Action{
		{coordination.NewAnswer, coordination.Vote}, {coordination.NewAnswer, coordination.Vote}, {coordination.Vote}, {coordination.NewAnswer},
	}).Draw(t, "offered")
	task.Novelty = rapid.SampledFrom([]string{"", "balanced", "strict"}).Draw(t, "novelty")
	task.TextAnswers = rapid.SampledFrom([]string{"", textWhenAsked, textAlways}).Draw(t, "text answers")
	if rapid.Bool().Draw(t, "timed") {
		task.Soft = time.Duration(rapid.IntRange(1, 20).Draw(t, "soft")) * time.Second
		task.Grace = time.Duration(rapid.IntRange(0, 5).Draw(t, "grace")) * time.Second
	}
	task.Allowance.Tokens = int64(rapid.IntRange(0, 40).Draw(t, "tokens"))
	if rapid.Bool().Draw(t, "gated") {
		gated(task)
	}
}

// drawTurns draws a model's replies, with the events during each.
func drawTurns(t *rapid.T, w *world) []turn {
	revisions := map[int]int{1: 2, 3: 1}
	said := 0
	happens := func() func() {
		number := rapid.IntRange(1, 5).Draw(t, "agent")
		switch rapid.IntRange(0, 4).Draw(t, "event") {
		case 0, 1:
			revisions[number]++
			revision := revisions[number]
			return func() { w.answer(number, revision, fmt.Sprintf("Answer %d of %d.", revision, number)) }
		case 2:
			said++
			message := said
			return func() { w.say(message, "Be brief.") }
		case 3:
			if rapid.IntRange(0, 5).Draw(t, "ending") == 0 {
				return func() { w.available.WrapUp = true }
			}
		}
		return func() {}
	}
	var turns []turn
	for range rapid.IntRange(1, 25).Draw(t, "turns") {
		first, second := happens(), happens()
		calls := rapid.SliceOfN(rapid.SampledFrom([]llm.ToolCall{
			reading, reading, reading, reading, reading, scores(3, "agent1.2", "agent3.1"),
			vote("agent1"), vote("agent2"), vote("agent5.1"), callAnswer("Two."), callAnswer("Answer 1 of 2."),
		}), 0, 2).Draw(t, "calls")
		turns = append(turns, turn{
			while: func() { first(); second() }, calls: reply(calls...).ToolCalls,
			says:  rapid.SampledFrom([]string{"", "Two.", "agent1", "agent5.1"}).Draw(t, "says"),
			takes: time.Duration(rapid.IntRange(0, 3).Draw(t, "takes")) * time.Second, usage: llm.Usage{InputTokens: 1},
		})
	}
	return turns
}

// requireKnownEnd requires an action or a documented error.
func requireKnownEnd(t *rapid.T, err error) {
	var ended *loop.EndedError
	var rejected *loop.NoActionError
	var late *loop.TimeOverError
	switch {
	case err == nil, errors.Is(err, scriptError{}), errors.As(err, &rejected), errors.As(err, &late):
	default:
		require.ErrorAs(t, err, &ended)
	}
}

// readShown returns the newest step of each agent shown in the conversation, the last message, and
// the number of answers in updates. Answers in the opening have no steps.
func readShown(t *rapid.T, entries []loop.Entry) (steps map[int]int, heard, told int) {
	steps = map[int]int{}
	revisions := map[int]int{}
	for _, e := range entries {
		if e.Kind != loop.Opening && e.Kind != loop.Updated {
			continue
		}
		text := e.Messages[len(e.Messages)-1].Content
		for _, match := range shownForm.FindAllStringSubmatch(text, -1) {
			number, err := strconv.Atoi(match[2])
			require.NoError(t, err)
			revision, err := strconv.Atoi(match[3])
			require.NoError(t, err)
			require.Greater(t, revision, revisions[number], "%s was shown, or a newer one", match[1])
			revisions[number] = revision
			steps[number] = 0
			if e.Kind == loop.Updated {
				steps[number] = 10 * revision
				told++
			}
		}
		for number := range 60 {
			if strings.Contains(text, fmt.Sprintf("=== %s message %d ===", testPeople, number)) {
				require.Greater(t, number, heard, "messages are shown once and in order")
				heard = number
			}
		}
	}
	return steps, heard, told
}

// requireVoteWasShown requires that a vote is for a shown answer.
func requireVoteWasShown(t *rapid.T, p *played, seen map[int]int) {
	if p.err != nil || p.action.Kind != "vote" {
		return
	}
	var cast ballot
	require.NoError(t, json.Unmarshal(p.action.Payload, &cast))
	require.Contains(t, seen, cast.Number)
}
