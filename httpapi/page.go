package httpapi

// maxPage is how many items a client may ask for at once.
const maxPage = 1000

// A page is the part of a list that a client asks for: at most limit items, those
// after the item of that id. Lists are in the order in which their items were made,
// so nothing that is added meanwhile shifts a page.
type page struct {
	limit int    // 0 is all
	after string // empty is from the beginning
}

// page reads the parameters limit and after.
func (c *call) page() (page, error) {
	q := c.query()
	p := page{limit: int(q.integer("limit", 0, 1, maxPage)), after: q.text("after")}
	return p, q.err
}

// cut returns the part of all that p asks for, and whether there is more behind it.
func cut[T interface{ ID() string }](p page, all []T) (part []T, more bool, err error) {
	if p.after != "" {
		i := 0
		for i < len(all) && all[i].ID() != p.after {
			i++
		}
		if i == len(all) {
			return nil, false, invalid("after", "is not in the list any more: begin again without it")
		}
		all = all[i+1:]
	}
	if p.limit > 0 && len(all) > p.limit {
		return all[:p.limit], true, nil
	}
	return all, false, nil
}
