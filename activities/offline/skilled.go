package offline

import (
	"cmp"
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
	"conclave/engine/text"
)

// respondent answers and votes on the questions of a data set; everything else is done by model. Its
// replies depend on the question, the agent and the step, so that a repeated step gets the same reply.
type respondent struct {
	*model
	agent string
	voter eval.Voter
	name  string // subject of the reasons of its votes

	find   func(query string) (eval.Question, error)          // the question that a query asks
	answer func(q eval.Question, step string) (string, error) // the answer of a step
	own    func(q eval.Question) string                       // the answer that it always gives; empty if answers vary
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
	var skill Skill
	if err := readParams(agent, params, &skill); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(skill.Targets)
	if err != nil {
		return nil, fmt.Errorf("read params.targets of agent %s: %w; name a readable data set", agent, err)
	}
	questions, err := eval.ReadQuestions(data, "")
	if err != nil {
		return nil, fmt.Errorf("read params.targets of agent %s: %s: %w", agent, skill.Targets, err)
	}
	m := &respondent{model: New(agent).(*model), agent: agent, name: "The offline model of known skill", voter: eval.Voter{Judging: skill.Judging, Seed: skill.Seed}}
	m.find = func(query string) (eval.Question, error) { return findQuestion(questions, query) }
	m.own = func(eval.Question) string { return "" }
	m.answer = func(q eval.Question, step string) (string, error) {
		chance, answer := m.voter.Chance(q.ID, agent, step), q.Target[0]
		if others := q.Wrong(); chance.Float64() >= skill.Skill {
			answer = others[chance.IntN(len(others))]
		}
		return fmt.Sprintf("%s, no language model was asked: this answer is right with probability %g.\n\nANSWER: %s", markForm(m.mark), skill.Skill, answer), nil
	}
	return m, nil
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

func findQuestion(questions []eval.Question, query string) (found eval.Question, err error) {
	at := eval.FindQuestion(questions, query)
	if at < 0 {
		return found, errors.New("the question is not in params.targets of the model of known skill; ask one of its questions")
	}
	if found = questions[at]; !isAnswerable(found) {
		return found, errors.New("the model of known skill has no right and wrong answer to it: it answers questions that are scored by match, exact, choice or includes; leave out the others (`conclave eval gen --kinds arithmetic,choice,strings` makes none)")
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
		if _, err := made.(*respondent).find(q.Prompt()); err != nil {
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

// Recorded returns the model of an agent that answers as a member of a recording has, with the params
// of its backend.
func Recorded(agent string, params map[string]any, recording *eval.Recording) (loop.Model, error) {
	var p struct {
		eval.Voter
		Member string `json:"member"`
	}
	if err := readParams(agent, params, &p); err != nil {
		return nil, err
	}
	if _, err := recording.Member(p.Member); err != nil {
		return nil, fmt.Errorf("read params.member of agent %s: %w", agent, err)
	}
	m := &respondent{model: New(agent).(*model), agent: agent, name: "The agent of recorded answers", voter: p.Voter}
	m.find = func(query string) (eval.Question, error) {
		if at := eval.FindQuestion(recording.Questions, query); at >= 0 {
			return recording.Questions[at], nil
		}
		return eval.Question{}, errors.New("the question is not in params.data of the recorded answers; ask one of its questions, or its ID")
	}
	m.own = func(q eval.Question) string { return q.Recorded(p.Member) }
	m.answer = func(q eval.Question, _ string) (string, error) {
		if text := m.own(q); text != "" {
			return text, nil
		}
		return "", fmt.Errorf("no answer of %s to the question %s is recorded", p.Member, q.ID)
	}
	return m, nil
}

// Generate returns the next reply.
func (m *respondent) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	v := newView(req, m.mark)
	bare, votes := len(req.Tools) == 0, len(v.candidates) > 0
	if ctx.Err() != nil || v.offersTool("submit") || v.offersTool("submit_evaluation") || v.offersTool("stop") || !bare && !votes && !v.offersTool("new_answer") {
		return m.model.Generate(ctx, req)
	}
	q, err := m.find(queryOf(req))
	answer := ""
	if err == nil {
		answer, err = m.answer(q, fmt.Sprintf("answer %d", v.own.revision+v.made["new_answer"]))
	}
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
		answer = cmp.Or(decidedText(req), answer) // of a presenter, or its own
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
	b.Labels = append(b.Labels, text.Each(v.candidates, candidate.versionLabel)...)
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
