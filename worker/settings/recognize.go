package settings

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Recognize reports whether a file is a worker configuration: it has a key of one, and no agents.
func Recognize(data []byte) bool {
	var file map[string]any
	if yaml.Unmarshal(data, &file) != nil {
		return false
	}
	recognized := false
	for field := range reflect.TypeFor[Settings]().Fields() {
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		_, found := file[key]
		recognized = recognized || found
	}
	_, agents := file["agents"]
	_, agent := file["agent"]
	return recognized && !agents && !agent
}
