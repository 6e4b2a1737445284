package openai

import (
	"context"
	"encoding/json"
)

// listedModel is an entry in a server's list of models. Each server states the model's context
// window under one of these keys.
type listedModel struct {
	MaxModelLen      int `json:"max_model_len"`      // key of vLLM and SGLang
	ContextLength    int `json:"context_length"`     // key of OpenRouter and Together
	ContextWindow    int `json:"context_window"`     // key of Groq
	MaxContextLength int `json:"max_context_length"` // key of Mistral and LM Studio
	Meta             struct {
		Context int `json:"n_ctx"` // key of llama.cpp
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
