package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/eval"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// respondent answers and votes on the questions of a data set; everything else is done by model. Its
// replies depend on the question, the agent and the step, so that a repeated step gets the same reply.
type respondent struct {
	*model
	agent string
	voter eval.Voter
	name  string // subject of the reasons of its votes
	source
}

// source has the answers of a respondent.
type source interface {
	// find returns the question that a query asks.
	find(query string) (eval.Question, error)
	// answer returns the answer of a step.
	answer(q eval.Question, step string) (string, error)
	// own returns the answer that the agent always gives, or "" if its answers vary.
	own(q eval.Question) string
}

// skilled answers correctly with a given probability.
type skilled struct {
	agent     string
	skill     Skill
	mark      string
	questions []eval.Question
}

// Skill contains the parameters of a skilled model, which votes as follows:
//
//   - With probability Judging, for the first right answer shown, if there is one.
//   - Otherwise for the answer that most agents gave if the prompt lists equal answers, or
//     else for a random one.
type Skill struct {
	Skill   float64 `json:"skill"`   // probability that an answer is right
	Judging float64 `json:"judging"` // probability that a vote deliberately chooses a right answer
	Seed    int64   `json:"seed"`
	Targets string  `json:"targets"` // file with the questions and their targets
}

// Skilled returns the model of one agent with the params of its backend. Its errors name the
// invalid parameter.
func Skilled(agent string, params map[string]any) (loop.Model, error) {
	s := &skilled{agent: agent}
	if err := readParams(agent, params, &s.skill); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(s.skill.Targets)
	if err != nil {
		return nil, fmt.Errorf("read params.targets of agent %s: %w; name a readable data set", agent, err)
	}
	if s.questions, err = eval.ReadQuestions(data, ""); err != nil {
		return nil, fmt.Errorf("read params.targets of agent %s: %s: %w", agent, s.skill.Targets, err)
	}
	m := New(agent).(*model)
	s.mark = m.mark
	return &respondent{model: m, agent: agent, source: s, name: "The offline model of known skill", voter: s.voter()}, nil
}

func readParams(agent string, params map[string]any, into any) error {
	data, err := json.Marshal(params)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("read the params of agent %s: %w", agent, err)
	}
	return nil
}

func (s *skilled) voter() eval.Voter { return eval.Voter{Judging: s.skill.Judging, Seed: s.skill.Seed} }

// find returns the question with which a query begins. If several match, it returns the longest.
func (s *skilled) find(query string) (found eval.Question, err error) {
	asked := false
	for _, q := range s.questions {
		if strings.HasPrefix(query, q.Prompt()) && len(q.Prompt()) > len(found.Prompt()) {
			found, asked = q, true
		}
	}
	switch {
	case !asked:
		return found, errors.New("the question is not in params.targets of the model of known skill; ask one of its questions")
	case !isAnswerable(found):
		return found, fmt.Errorf("the model of known skill has no right and wrong answer to the question %s: it answers questions that are scored by match, exact, choice or includes; leave out the others", found.ID)
	}
	return found, nil
}

// CheckQuestions returns an error for the first question that a model of known skill cannot answer.
func CheckQuestions(agent string, params map[string]any, asked []eval.Question) error {
	made, err := Skilled(agent, params)
	if err != nil {
		return err
	}
	for _, q := range asked {
		if _, err := made.(*respondent).source.find(q.Prompt()); err != nil {
			return fmt.Errorf("agent %s cannot be asked question %s: %w", agent, q.ID, err)
		}
	}
	return nil
}

func isAnswerable(q eval.Question) bool {
	if len(q.Target) == 0 || len(q.Wrong()) == 0 {
		return false
	}
	_, right := q.Score("", "ANSWER: "+q.Target[0])
	return right != nil && *right
}

func (s *skilled) own(eval.Question) string { return "" }

func (s *skilled) answer(q eval.Question, step string) (string, error) {
	chance := s.voter().Chance(q.ID, s.agent, step)
	answer := q.Target[0]
	if chance.Float64() >= s.skill.Skill {
		others := q.Wrong()
		answer = others[chance.IntN(len(others))]
	}
	return fmt.Sprintf("%s, no language model was asked: this answer is right with probability %g.\n\nANSWER: %s", markForm(s.mark), s.skill.Skill, answer), nil
}

// recorded answers as a member of a recording has answered.
type recorded struct {
	member    string
	column    int
	recording *eval.Recording
}

// recordedParams are the parameters of recorded answers.
type recordedParams struct {
	eval.Voter
	Member string `json:"member"`
}

// Recorded returns the model of an agent that answers as a member of a recording has, with the params
// of its backend.
func Recorded(agent string, params map[string]any, recording *eval.Recording) (loop.Model, error) {
	p := recordedParams{}
	if err := readParams(agent, params, &p); err != nil {
		return nil, err
	}
	column, err := recording.Member(p.Member)
	if err != nil {
		return nil, fmt.Errorf("read params.member of agent %s: %w", agent, err)
	}
	r := &recorded{member: p.Member, column: column, recording: recording}
	return &respondent{model: New(agent).(*model), agent: agent, source: r, name: "The agent of recorded answers", voter: p.OfRecorded()}, nil
}

func (r *recorded) find(query string) (eval.Question, error) {
	alone, _, _ := strings.Cut(query, "\n\n# ") // of the sections that follow it
	for _, asked := range []string{query, alone} {
		if at := r.recording.Find(asked); at >= 0 {
			return r.recording.Questions[at], nil
		}
	}
	return eval.Question{}, errors.New("the question is not in params.data of the recorded answers; ask one of its questions, or its ID")
}

func (r *recorded) own(q eval.Question) string {
	return r.recording.Answer(r.recording.Find(q.ID), r.column)
}

func (r *recorded) answer(q eval.Question, _ string) (string, error) {
	if text := r.own(q); text != "" {
		return text, nil
	}
	return "", fmt.Errorf("no answer of %s to the question %s is recorded", r.member, q.ID)
}

// Generate returns the next reply.
func (m *respondent) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	v := newView(req, m.mark)
	bare, votes := len(req.Tools) == 0, len(v.candidates) > 0
	if ctx.Err() != nil || v.offersTool("submit") || v.offersTool("submit_evaluation") || v.offersTool("stop") || !bare && !votes && !v.offersTool("new_answer") {
		return m.model.Generate(ctx, req)
	}
	q, err := m.find(queryOf(req))
	if err != nil {
		return llm.Reply{}, &llm.Error{Kind: llm.BadRequest, Message: err.Error()}
	}
	texts := shownTexts(req)
	if own := m.own(q); own != "" && v.offersTool("new_answer") {
		votes = votes && m.indexOf(own, texts, v) >= 0 // its answer comes first
	}
	message := llm.Message{Role: llm.Assistant}
	if votes {
		message.ToolCalls = []llm.ToolCall{m.castVote(req, q, v, texts)}
	} else {
		answer := decidedText(req) // of a presenter
		if answer == "" {
			if answer, err = m.answer(q, fmt.Sprintf("answer %d", v.own.revision+v.made["new_answer"])); err != nil {
				return llm.Reply{}, &llm.Error{Kind: llm.BadRequest, Message: err.Error()}
			}
		}
		if message.Content = answer; !bare {
			message = llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{newCall("new_answer", map[string]string{"content": answer})}}
		}
	}
	for i := range message.ToolCalls {
		message.ToolCalls[i].ID = fmt.Sprintf("offline_%d_%d", len(req.Messages), i)
	}
	return llm.Reply{Message: message, Usage: estimateUsage(req, message)}, nil
}

// queryOf returns the first message of a user, which begins with the query.
func queryOf(req llm.Request) string {
	at := slices.IndexFunc(req.Messages, func(message llm.Message) bool { return message.Role == llm.User })
	if at < 0 {
		return ""
	}
	query, _ := strings.CutPrefix(req.Messages[at].Content, "# Task\n\n")
	return query
}

// indexOf returns the index of the first candidate with the text, or -1.
func (m *respondent) indexOf(text string, texts map[string]string, v view) int {
	return slices.IndexFunc(v.candidates, func(c candidate) bool {
		return text != "" && strings.TrimSpace(texts[c.versionLabel()]) == strings.TrimSpace(text)
	})
}

func (m *respondent) castVote(req llm.Request, q eval.Question, v view, texts map[string]string) llm.ToolCall {
	last := lastUser(req)
	b := eval.Ballot{Own: m.indexOf(m.own(q), texts, v), Again: strings.Contains(last, "no answer got a majority"), Refused: v.made["vote"]}
	for _, c := range v.candidates {
		b.Labels = append(b.Labels, c.versionLabel())
	}
	b.Right = slices.IndexFunc(v.candidates, func(c candidate) bool {
		_, correct := q.Score("", texts[c.versionLabel()])
		return correct != nil && *correct
	})
	b.Most, b.Tied = mostGiven(last, v.candidates)
	choice, reason := m.voter.Choose(q.ID, m.agent, b)
	return newCall("vote", map[string]string{"agent_id": v.candidates[choice].agent, "reason": m.name + " " + reason + "."})
}

func lastUser(req llm.Request) string {
	for _, message := range slices.Backward(req.Messages) {
		if message.Role == llm.User {
			return message.Content
		}
	}
	return ""
}

// equals matches a line in the prompt's section about equal answers.
var equals = regexp.MustCompile(`(?m)^- (agent\d+\.\d+(?:, agent\d+\.\d+)*): the same answer, given by (\d+) agents$`)

// mostGiven returns the index of the first candidate whose answer most agents gave according to the
// prompt, and whether as many gave another. Without equal answers in the prompt it returns -1.
func mostGiven(prompt string, candidates []candidate) (best int, tied bool) {
	best, most := -1, 0
	for _, line := range equals.FindAllStringSubmatch(prompt, -1) {
		n, _ := strconv.Atoi(line[2])
		first, _, _ := strings.Cut(line[1], ",")
		at := slices.IndexFunc(candidates, func(c candidate) bool { return c.versionLabel() == first })
		switch {
		case at < 0:
		case n > most:
			best, most, tied = at, n, false
		case n == most:
			tied = true
		}
	}
	return best, tied
}

// framed matches the first line of an answer in its frame.
var framed = regexp.MustCompile(`(?m)^=== (\S+) begin (agent\d+\.\d+) ===\n`)

func shownTexts(req llm.Request) map[string]string {
	texts := map[string]string{}
	for _, message := range req.Messages {
		if message.Role != llm.User {
			continue
		}
		for _, at := range framed.FindAllStringSubmatchIndex(message.Content, -1) {
			mark, label := message.Content[at[2]:at[3]], message.Content[at[4]:at[5]]
			text, _, _ := strings.Cut(message.Content[at[1]:], "\n=== "+mark+" end "+label+" ===")
			texts[label] = text
		}
	}
	return texts
}

// decision matches the sentence about the decision in a presenter's prompt.
var decision = regexp.MustCompile(`(?m)^(agent\d+\.\d+) (?:has \d+ of \d+ votes|was chosen without votes)\.`)

// decidedText returns the text of the answer chosen by the team according to a presenter's prompt, or
// "" for any other prompt.
func decidedText(req llm.Request) string {
	m := decision.FindStringSubmatch(lastUser(req))
	if m == nil {
		return ""
	}
	return shownTexts(req)[m[1]]
}
