package session

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/offline"
	"conclave/activities/tools"
	"conclave/engine/coordination"
	"conclave/engine/loop"
)

// unjournaled discards entries.
type unjournaled struct{}

func (unjournaled) Append(context.Context, loop.Entry) error { return nil }

// takeStep runs one step with the offline model and the real loop, rules and file tools. Its files
// are in dir.
func takeStep(t *testing.T, seed, dir string, answers []answer) loop.Action {
	t.Helper()
	files, err := tools.Open(t.Context(), dir, tools.Set{Files: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, files.Close()) }()
	task := task{
		Query: "Tabs or spaces?", Offered: []coordination.Action{coordination.NewAnswer}, marks: marks{Mark: "5eed"},
		shown: shown{Answers: answers}, equipment: equipment{Files: true},
	}
	if len(answers) > 0 {
		task.Offered = append(task.Offered, coordination.Vote)
	}
	for _, tool := range files.Tools() {
		task.Tools = append(task.Tools, tool.Name)
	}
	rules := newRules(task)
	opening, err := rules.Opening()
	require.NoError(t, err)
	var conversation loop.Conversation
	conversation.Append(true, opening...)
	l := loop.Loop{Model: offline.New(seed), Tools: files, Journal: unjournaled{}.Append}
	action, err := l.Run(t.Context(), &conversation, rules)
	require.NoError(t, err)
	require.Zero(t, conversation.Rejections)
	return action
}

// A team of three plays the three rounds in the documentation: all answer; one answers again while
// two vote; all vote for the newest answer.
func TestOfflineTeamOfThree(t *testing.T) {
	t.Parallel()
	agents := []string{"agent_a", "agent_b", "agent_c"}
	answers := make([]answer, 3)
	round := func() (kinds []string, targets []int) {
		shown := append([]answer(nil), answers...)
		if shown[0].Label == "" {
			shown = nil
		}
		for i, agent := range agents {
			dir := t.TempDir()
			for _, a := range shown {
				peer := filepath.Join(dir, "peers", fmt.Sprintf("agent%d", a.Number))
				require.NoError(t, os.MkdirAll(peer, 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(peer, "answer.md"), []byte(a.Text), 0o444))
			}
			action := takeStep(t, agent, dir, shown)
			kinds = append(kinds, action.Kind)
			if action.Kind == "vote" {
				var vote ballot
				require.NoError(t, json.Unmarshal(action.Payload, &vote))
				targets = append(targets, vote.Number)
				continue
			}
			var submitted proposal
			require.NoError(t, json.Unmarshal(action.Payload, &submitted))
			require.FileExists(t, filepath.Join(dir, "answer.md"))
			revision := 1
			if len(shown) > 0 {
				revision = 2
			}
			answers[i] = answer{Number: i + 1, Label: fmt.Sprintf("agent%d.%d", i+1, revision), Text: submitted.Content, Files: 1}
		}
		return kinds, targets
	}

	kinds, _ := round()
	require.Equal(t, []string{"new_answer", "new_answer", "new_answer"}, kinds)
	kinds, targets := round()
	require.Equal(t, []string{"vote", "vote", "new_answer"}, kinds)
	require.Equal(t, []int{1, 1}, targets)
	kinds, targets = round()
	require.Equal(t, []string{"vote", "vote", "vote"}, kinds)
	require.Equal(t, []int{3, 3, 3}, targets)
}
