package openai

import (
	"context"
	"encoding/json"
)

// listedModel is an entry in a server's list of models. Each server states the model's context
// window under one of these keys.
type listedModel struct {
	MaxModelLen      int `json:"max_model_len"`      // vLLM, SGLang
	ContextLength    int `json:"context_length"`     // OpenRouter, Together
	ContextWindow    int `json:"context_window"`     // Groq
	MaxContextLength int `json:"max_context_length"` // Mistral, LM Studio
	Meta             struct {
		Context int `json:"n_ctx"` // llama.cpp
	} `json:"meta"`
}

// Window returns the context window of the model in tokens according to the server's list of
// models, or 0 if the list does not exist or does not state it.
func (c *Client) Window(ctx context.Context) int {
	page, err := c.models.List(ctx)
	if err != nil {
		return 0
	}
	for _, m := range page.Data {
		var listed listedModel
		if m.ID == c.model && json.Unmarshal([]byte(m.RawJSON()), &listed) == nil {
			return max(listed.MaxModelLen, listed.ContextLength, listed.ContextWindow, listed.MaxContextLength, listed.Meta.Context)
		}
	}
	return 0
}
