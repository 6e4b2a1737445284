package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// overlaps maps a value of answer_novelty_requirement to the Jaccard similarity above
// which a new answer is too close to an earlier one.
var overlaps = map[string]float64{"balanced": 0.7, "strict": 0.5}

// endorsement is the reason for the vote, or the summary of the stop, of an agent that
// submitted an equal answer twice.
const endorsement = "Submitted the same answer."

// reviewAction rules on an action to be confirmed, with access to the agent's files. It returns nil
// to accept it.
func (r *rules) reviewAction(ctx context.Context, a loop.Action) (*loop.Ruling, error) {
	switch {
	case a.Kind == string(coordination.Vote):
		return r.reviewVote(ctx, a)
	case a.Kind == string(coordination.NewAnswer) && r.task.Purpose != coordination.Present:
		return r.reviewAnswer(ctx, a)
	default:
		return nil, nil
	}
}

// reviewVote rejects a vote if the same reply submitted the text of the answer voted for and
// the agent's files differ from that answer's: such a submission is a new answer.
func (r *rules) reviewVote(ctx context.Context, a loop.Action) (*loop.Ruling, error) {
	var b ballot
	if err := json.Unmarshal(a.Payload, &b); err != nil {
		return nil, fmt.Errorf("read the vote: %w", err)
	}
	at := slices.IndexFunc(r.memory.texts, func(a answer) bool { return a.Label == b.Repeats })
	if at < 0 {
		return nil, nil
	}
	manifest, err := r.task.filesManifest(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("compare the files of the answer submitted with a vote: %w", err)
	case !r.memory.texts[at].hasOtherFiles(manifest):
		return nil, nil
	}
	return &loop.Ruling{Rejected: voteAndAnswer, Say: fmt.Sprintf("You called both vote and new_answer, and your files differ from those of %s. "+
		"Decide for one of them. Nothing was submitted. Finish by calling %s.", b.Repeats, r.endingCalls())}, nil
}

// reviewAnswer rules on a new answer that is equal or too close to an answer that was shown,
// including the agent's own. An answer with different files is always new. A presenter may
// present an answer unchanged.
func (r *rules) reviewAnswer(ctx context.Context, a loop.Action) (*loop.Ruling, error) {
	var p proposal
	if err := json.Unmarshal(a.Payload, &p); err != nil {
		return nil, fmt.Errorf("read the new answer: %w", err)
	}
	near := r.nearTo(p)
	if len(near) == 0 {
		return nil, nil
	}
	manifest, err := r.task.filesManifest(ctx)
	if err != nil {
		return nil, fmt.Errorf("compare the files of the new answer: %w", err)
	}
	near = slices.DeleteFunc(near, func(a answer) bool { return a.hasOtherFiles(manifest) })
	equal := slices.IndexFunc(near, func(a answer) bool { return r.repeats(p, a) })
	switch {
	case len(near) == 0:
		return nil, nil
	case equal < 0:
		return r.tooClose(near[0]), nil
	}
	near = slices.DeleteFunc(near, func(a answer) bool { return !r.repeats(p, a) })
	return r.judgeDuplicate(near), nil
}

// hasOtherFiles reports whether the answer's files differ from those of manifest, which is empty if
// unknown.
func (a answer) hasOtherFiles(manifest string) bool { return manifest != "" && manifest != a.Manifest }

// filesManifest returns the hash of the manifest of the agent's files, or "" for a step without files.
func (t task) filesManifest(ctx context.Context) (string, error) {
	if t.Manifest == nil {
		return "", nil
	}
	return t.Manifest(ctx)
}

// repeats reports whether a new answer has the data of another, or, without data, its text.
func (r *rules) repeats(p proposal, a answer) bool {
	if r.task.Agree == config.DataEqual && p.Equal != "" {
		return p.Equal == a.Digest.Data
	}
	return strings.TrimSpace(p.Content) == a.originalText()
}

// nearTo returns the shown answers that are equal or too close to a new one.
func (r *rules) nearTo(p proposal) []answer {
	limit, limited := overlaps[r.task.Novelty]
	var near []answer
	for _, a := range r.memory.texts {
		if r.repeats(p, a) || limited && wordOverlap(wordSet(p.Content), wordSet(a.originalText())) > limit {
			near = append(near, a)
		}
	}
	return near
}

func (r *rules) tooClose(a answer) *loop.Ruling {
	why := fmt.Sprintf("Your answer is too close to %s: more than %.0f %% of their words are common. Submit one that differs in substance%s. Nothing was submitted.",
		a.Label, overlaps[r.task.Novelty]*100, r.orEnd())
	return &loop.Ruling{Rejected: answerNovelty, Say: why}
}

// judgeDuplicate rules on an answer with the text of an earlier one. It first asks the agent to
// endorse the equal answer with the lowest number; submitting the same text again counts as
// the endorsement.
func (r *rules) judgeDuplicate(equals []answer) *loop.Ruling {
	at, way := r.lowestEqual(equals), r.endorsingAction()
	if at < 0 || way == "" {
		return &loop.Ruling{Rejected: answerDuplicate, Say: "Your answer is the same as " + equals[0].Label +
			", which is there already. Change something that matters" + r.orEnd() + ". Nothing was submitted."}
	}
	equal := r.memory.answers[at]
	if !r.memory.repeated {
		is := "equal to "
		if slices.ContainsFunc(equals, equal.sameLabel) {
			is = "the same as "
		}
		return &loop.Ruling{
			Rejected: answerDuplicate, Note: marshal(note{Repeated: true}),
			Say: "Your answer is " + is + equal.Label + ", which is there already. Nothing was submitted. " + endorsingCall(way, equal),
		}
	}
	if way == coordination.Stop {
		return &loop.Ruling{
			Action: &loop.Action{Kind: string(way), Payload: marshal(stop{Status: coordination.Complete, Summary: endorsement})},
			Say:    "The same work again: you have stopped, and it stands as complete.",
		}
	}
	return &loop.Ruling{
		Action: &loop.Action{Kind: string(way), Payload: marshal(ballot{Number: equal.Number, Label: equal.Label, Reason: endorsement})},
		Say:    "The same answer again: it counts as your vote for " + equal.Label + ".",
	}
}

// lowestEqual returns the index of the first of the newest answers that is in equals, or that
// is equal to one of them in the sense of agree. Without one it returns -1.
func (r *rules) lowestEqual(equals []answer) int {
	lines := r.task.comparesLines(r.memory.answers)
	return slices.IndexFunc(r.memory.answers, func(a answer) bool {
		return slices.ContainsFunc(equals, func(equal answer) bool {
			return a.sameLabel(equal) || a.Digest.Equal(equal.Digest, r.task.Agree, lines)
		})
	})
}

func (a answer) sameLabel(b answer) bool { return a.Label == b.Label }

func (a answer) originalText() string { return strings.TrimSpace(cmp.Or(a.Raw, a.Text)) }

// endorsingAction returns the action by which the agent can endorse an answer, or "" if none is
// open.
func (r *rules) endorsingAction() coordination.Action {
	for _, action := range r.permittedActions() {
		if action == coordination.Vote || action == coordination.Stop {
			return action
		}
	}
	return ""
}

func endorsingCall(way coordination.Action, a answer) string {
	if way == coordination.Stop {
		return "If nothing is left to do, call stop with " + exampleStop + "."
	}
	return fmt.Sprintf("To support %s, call vote with "+exampleVote+".", a.Label, a.authorName())
}

// withoutEchoes separates the new answers that repeat the text of the answer for which the
// same reply votes. It returns them and the label of that answer.
func (r *rules) withoutEchoes(calls []llm.ToolCall) (kept, echoes []llm.ToolCall, repeated string) {
	voted := r.memory.votedAnswers(calls)
	for _, call := range calls {
		var p proposal
		at := -1
		if call.Name == string(coordination.NewAnswer) {
			submitted, _ := r.parseAnswer(call.Arguments)
			_ = json.Unmarshal(submitted.payload, &p) // a rejected one has none
			at = slices.IndexFunc(voted, func(a answer) bool { return r.repeats(p, a) })
		}
		if at < 0 {
			kept = append(kept, call)
			continue
		}
		echoes, repeated = append(echoes, call), voted[at].Label
	}
	return kept, echoes, repeated
}

func (m *memory) votedAnswers(calls []llm.ToolCall) []answer {
	var voted []answer
	for _, call := range calls {
		if call.Name != string(coordination.Vote) {
			continue
		}
		var args struct {
			AgentID json.RawMessage `json:"agent_id"`
		}
		_ = json.Unmarshal([]byte(call.Arguments), &args) // parseVote reports it
		if a, _, ok := m.findAnswer(readAgent(args.AgentID)); ok {
			voted = append(voted, a)
		}
	}
	return voted
}

// orEnd returns ", or" and the vote or stop, if it is open.
func (r *rules) orEnd() string {
	if way := r.endorsingAction(); way != "" {
		return ", or " + string(way)
	}
	return ""
}

func wordSet(text string) map[string]bool {
	set := make(map[string]bool)
	for _, word := range strings.Fields(strings.ToLower(text)) {
		set[word] = true
	}
	return set
}

// wordOverlap returns the Jaccard similarity of two sets, which is 1 if both are empty.
func wordOverlap(a, b map[string]bool) float64 {
	if len(a) == 0 && len(b) == 0 {
		return 1
	}
	common := 0
	for word := range a {
		if b[word] {
			common++
		}
	}
	return float64(common) / float64(len(a)+len(b)-common)
}
