package page

import (
	"html/template"
	"slices"
	"strconv"
)

// strip is a stretch of the symbols of one kind in a lane. A live page is sent the strips that
// changed, of a long lane as of a short one.
type strip[T comparable] struct {
	ID    string
	Items []T
	Drawn template.HTML // of an earlier drawing
}

// stripsOf splits the symbols of a kind in the lane of an agent.
func stripsOf[T comparable](kind, agent string, all []T) []strip[T] {
	const length = 16
	var strips []strip[T]
	for items := range slices.Chunk(all, length) {
		strips = append(strips, strip[T]{ID: slug(kind+"."+strconv.Itoa(len(strips)), agent), Items: items})
	}
	return strips
}

// drawStrips draws strips that are not drawn alike on a canvas, and returns them as parts.
func drawStrips[T comparable](c *Canvas, template, parent string, strips []strip[T]) []Part {
	var parts []Part
	for i := range strips {
		s := &strips[i]
		if old, _ := c.strips[s.ID].(strip[T]); slices.Equal(old.Items, s.Items) {
			s.Drawn = old.Drawn
		} else if html, err := execute(template, s); err == nil { // else it is drawn with the page, which reports the error
			s.Drawn = trimmed(html)
			c.strips[s.ID] = *s
		}
		parts = append(parts, Part{ID: s.ID, Parent: parent, HTML: string(s.Drawn)})
	}
	return parts
}
