package team

import (
	"embed"
	"fmt"
	"strings"
	"text/template"

	"conclave/engine/llm"
)

//go:embed templates/*.tmpl
var templates embed.FS

// prompt is what the templates see.
type prompt struct {
	Task
	Shown     []shown
	CanAnswer bool
	CanVote   bool
}

// Opening returns the system and the user message that the step starts with. It
// fails when the task cannot be worked on or would show what is not anonymous.
func (r *Rules) Opening() ([]llm.Message, error) {
	if err := r.task.check(); err != nil {
		return nil, fmt.Errorf("opening a step: %w", err)
	}
	set, err := template.ParseFS(templates, "templates/*.tmpl")
	if err != nil {
		return nil, fmt.Errorf("reading the prompt templates: %w", err)
	}
	data := prompt{Task: r.task, Shown: r.task.frame(), CanAnswer: r.task.canAnswer(), CanVote: r.task.canVote()}
	system, err := fill(set, "system.tmpl", data)
	if err != nil {
		return nil, err
	}
	user, err := fill(set, "user.tmpl", data)
	if err != nil {
		return nil, err
	}
	return []llm.Message{{Role: llm.System, Content: system}, {Role: llm.User, Content: user}}, nil
}

func fill(set *template.Template, name string, data prompt) (string, error) {
	var b strings.Builder
	if err := set.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("filling the prompt template %s: %w", name, err)
	}
	return strings.TrimSpace(b.String()), nil
}
