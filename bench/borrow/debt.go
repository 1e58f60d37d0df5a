package main

// debt runs GPS over what is missing from the bucket: whoever borrowed it owes it, and the
// refill pays the debts off in proportion to the quanta. A debt is a tag: the virtual time at
// which it will be paid.
type debt struct {
	bucket
	quanta []float64
	beta   float64
	v, w   float64 // w: quanta of those in debt
	kids   []debtor
	heap   []int32
}

type debtor struct {
	until float64
	place int32 // in the heap, plus 1
}

func newDebt(p pool) *debt {
	return &debt{bucket: newBucket(p), quanta: p.quanta, beta: 3, kids: make([]debtor, len(p.quanta))}
}

func (d *debt) allow(now float64, child int, cost float64) (bool, float64) {
	pays := d.capacity * (now - d.at)
	d.fill(now)
	for len(d.heap) > 0 {
		first := d.heap[0]
		if need := (d.kids[first].until - d.v) * d.w; need > pays {
			d.v += pays / d.w
			break
		} else {
			pays -= need
		}
		d.v = d.kids[first].until
		d.w -= d.quanta[first]
		d.kids[first].place = 0
		last := len(d.heap) - 1
		moved := d.heap[last]
		d.heap = d.heap[:last]
		if last > 0 {
			d.heap[0] = moved
			d.down(0)
		} else {
			d.w = 0
		}
	}
	k := &d.kids[child]
	owes := 0.0
	if k.place > 0 {
		owes = max(0, k.until-d.v) * d.w
	}
	if owes > d.beta*d.level || d.level < cost {
		return false, max(d.until(cost), (owes-d.beta*d.level)/(d.capacity*(1+d.beta)))
	}
	d.level -= cost
	if k.place == 0 {
		d.w += d.quanta[child]
		k.until = d.v
		d.heap = append(d.heap, int32(child))
		k.place = int32(len(d.heap))
		k.until += cost / d.quanta[child]
		d.up(len(d.heap) - 1)
	} else {
		k.until += cost / d.quanta[child]
		d.down(int(k.place) - 1)
	}
	return true, 0
}

func (d *debt) before(i, j int) bool { return d.kids[d.heap[i]].until < d.kids[d.heap[j]].until }

func (d *debt) up(i int) {
	for i > 0 && d.before(i, (i-1)/2) {
		d.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	d.kids[d.heap[i]].place = int32(i) + 1
}

func (d *debt) down(i int) {
	for {
		c := 2*i + 1
		if c+1 < len(d.heap) && d.before(c+1, c) {
			c++
		}
		if c >= len(d.heap) || !d.before(c, i) {
			break
		}
		d.swap(i, c)
		i = c
	}
	d.kids[d.heap[i]].place = int32(i) + 1
}

func (d *debt) swap(i, j int) {
	d.heap[i], d.heap[j] = d.heap[j], d.heap[i]
	d.kids[d.heap[i]].place, d.kids[d.heap[j]].place = int32(i)+1, int32(j)+1
}
