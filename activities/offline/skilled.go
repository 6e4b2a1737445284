package offline

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/eval"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// skilled answers and votes correctly with given probabilities. Its draws depend on its seed, the
// question, the agent and the step, so that a repeated step gets the same reply. It votes as
// follows:
//
//   - With probability Judging, for the first right answer shown, if there is one.
//   - Otherwise for the answer that most agents gave if the prompt lists equal answers, or
//     else for a random one.
//
// Everything else is done by model.
type skilled struct {
	*model
	agent     string
	skill     Skill
	questions []eval.Question
}

// Skill contains the parameters of a skilled model.
type Skill struct {
	Skill   float64 `json:"skill"`   // probability that an answer is right
	Judging float64 `json:"judging"` // probability that a vote deliberately chooses a right answer
	Seed    int64   `json:"seed"`
	Targets string  `json:"targets"` // file with the questions and their targets
}

// Skilled returns the model of one agent with the params of its backend. Its errors name the
// invalid parameter.
func Skilled(agent string, params map[string]any) (loop.Model, error) {
	data, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("read the params of agent %s: %w", agent, err)
	}
	m := &skilled{model: New(agent).(*model), agent: agent}
	if err := json.Unmarshal(data, &m.skill); err != nil {
		return nil, fmt.Errorf("read the params of agent %s: %w", agent, err)
	}
	if data, err = os.ReadFile(m.skill.Targets); err != nil {
		return nil, fmt.Errorf("read params.targets of agent %s: %w; name a readable data set", agent, err)
	}
	if m.questions, err = eval.ReadQuestions(data, ""); err != nil {
		return nil, fmt.Errorf("read params.targets of agent %s: %s: %w", agent, m.skill.Targets, err)
	}
	return m, nil
}

// Generate returns the next reply.
func (m *skilled) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	v := newView(req, m.mark)
	bare, votes := len(req.Tools) == 0, len(v.candidates) > 0
	if ctx.Err() != nil || v.offersTool("submit") || v.offersTool("submit_evaluation") || v.offersTool("stop") || !bare && !votes && !v.offersTool("new_answer") {
		return m.model.Generate(ctx, req)
	}
	q, asked := m.findQuestion(req)
	if !asked {
		return llm.Reply{}, &llm.Error{Kind: llm.BadRequest, Message: "the question is not in params.targets of the model of known skill; ask one of its questions"}
	}
	if !isAnswerable(q) {
		return llm.Reply{}, &llm.Error{Kind: llm.BadRequest, Message: "the model of known skill has no right and wrong answer to the question " + q.ID +
			": it answers questions that are scored by match, exact, choice or includes; leave out the others"}
	}
	message := llm.Message{Role: llm.Assistant}
	switch {
	case bare:
		message.Content = m.drawAnswer(req, q, v)
	case votes:
		message.ToolCalls = []llm.ToolCall{m.drawVote(req, q, v)}
	default:
		message.ToolCalls = []llm.ToolCall{newCall("new_answer", map[string]string{"content": m.drawAnswer(req, q, v)})}
	}
	for i := range message.ToolCalls {
		message.ToolCalls[i].ID = fmt.Sprintf("offline_%d_%d", len(req.Messages), i)
	}
	return llm.Reply{Message: message, Usage: estimateUsage(req, message)}, nil
}

// findQuestion returns the question with which the prompt begins. If several match, it returns the
// longest.
func (m *skilled) findQuestion(req llm.Request) (found eval.Question, asked bool) {
	for _, message := range req.Messages {
		if message.Role != llm.User {
			continue
		}
		query, _ := strings.CutPrefix(message.Content, "# Task\n\n")
		for _, q := range m.questions {
			if strings.HasPrefix(query, q.Prompt()) && len(q.Prompt()) > len(found.Prompt()) {
				found, asked = q, true
			}
		}
		return found, asked
	}
	return found, false
}

func isAnswerable(q eval.Question) bool {
	if len(q.Target) == 0 || len(q.Wrong()) == 0 {
		return false
	}
	_, right := q.Score("", "ANSWER: "+q.Target[0])
	return right != nil && *right
}

func (m *skilled) newChance(q eval.Question, step string) *rand.Rand {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s\x00%s", m.skill.Seed, q.ID, m.agent, step))
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:]))) //nolint:gosec // the draw is repeatable
}

// drawAnswer returns a right or wrong answer. A presenter repeats the chosen answer.
func (m *skilled) drawAnswer(req llm.Request, q eval.Question, v view) string {
	if chosen := decidedText(req); chosen != "" {
		return chosen
	}
	chance := m.newChance(q, fmt.Sprintf("answer %d", v.own.revision+v.made["new_answer"]))
	answer := q.Target[0]
	if chance.Float64() >= m.skill.Skill {
		others := q.Wrong()
		answer = others[chance.IntN(len(others))]
	}
	return fmt.Sprintf("%s, no language model was asked: this answer is right with probability %g.\n\nANSWER: %s", markForm(m.mark), m.skill.Skill, answer)
}

func (m *skilled) drawVote(req llm.Request, q eval.Question, v view) llm.ToolCall {
	step := "vote"
	for _, c := range v.candidates {
		step += " " + c.versionLabel()
	}
	last := lastUser(req)
	if strings.Contains(last, "no answer got a majority") {
		step += " again"
	}
	chance := m.newChance(q, fmt.Sprintf("%s %d", step, v.made["vote"]))
	texts := shownTexts(req)
	right := slices.IndexFunc(v.candidates, func(c candidate) bool {
		_, correct := q.Score("", texts[c.versionLabel()])
		return correct != nil && *correct
	})
	reason, choice := "The offline model of known skill recognizes it.", right
	if judges := chance.Float64() < m.skill.Judging; !judges || right < 0 {
		reason, choice = "The offline model of known skill follows most agents.", mostGiven(last, v.candidates)
		if choice < 0 {
			reason, choice = "The offline model of known skill guesses.", chance.IntN(len(v.candidates))
		}
	}
	return newCall("vote", map[string]string{"agent_id": v.candidates[choice].agent, "reason": reason})
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

// mostGiven returns the index of the candidate whose answer most agents gave according to the
// prompt, or -1 if the prompt lists no equal answers.
func mostGiven(prompt string, candidates []candidate) int {
	best, most := -1, 0
	for _, line := range equals.FindAllStringSubmatch(prompt, -1) {
		n, _ := strconv.Atoi(line[2])
		first, _, _ := strings.Cut(line[1], ",")
		at := slices.IndexFunc(candidates, func(c candidate) bool { return c.versionLabel() == first })
		if at >= 0 && n > most {
			best, most = at, n
		}
	}
	return best
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
