// node_modules/preact/dist/preact.mjs
var n, t, r, u, i, f, o, e, l, c, a, s, h = /* @__PURE__ */ Symbol.for("pv"), p = {}, y = [], v = /^m(i|n|o|s|text|space)$/, w = Array.isArray, d = y.slice, _ = Object.assign;
function g(n3) {
n3 && n3.parentNode && n3.remove();
}
function k(n3, t4, r4) {
var u4, i4, f5, o5 = {}, e4 = arguments.length;
for (f5 in t4) f5 == "key" ? u4 = t4[f5] : f5 == "ref" && typeof n3 != "function" ? i4 = t4[f5] : o5[f5] = t4[f5];
return e4 > 2 && (o5.children = e4 > 3 ? d.call(arguments, 2) : r4), m(n3, o5, u4, i4, null);
}
function m(r4, u4, i4, f5, o5) {
var e4 = { type: r4, props: u4, key: i4, ref: f5, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: h, __v: o5 || ++t, __i: -1, __u: 0 };
return !o5 && n.vnode && n.vnode(e4), e4;
}
function $(n3) {
return n3.children;
}
function x(n3, t4) {
this.props = n3, this.context = t4, this.__g = 0;
}
function S(n3, t4) {
if (t4 == null) return n3.__ && S(n3.__, n3.__i + 1);
for (var r4; t4 < n3.__k.length; t4++) if ((r4 = n3.__k[t4]) && r4.__e) return r4.__e;
return typeof n3.type != "function" || n3.props.__P ? null : S(n3);
}
function C(t4) {
var r4, u4 = t4.__v, i4 = u4.__e, f5 = [], o5 = [], e4 = t4.__P;
e4 && ((r4 = _({ constructor: h }, u4)).__v = u4.__v + 1, n.vnode && n.vnode(r4), z(e4, r4, u4, t4.__n, e4.namespaceURI, 32 & u4.__u ? [i4] : null, f5, i4 || S(u4), 32 & u4.__u, o5), r4.__v = u4.__v, r4.__.__k[r4.__i] = r4, E(f5, r4, o5), u4.__ = u4.__e = null, r4.__e != i4 && j(r4));
}
function j(n3) {
if ((n3 = n3.__) && n3.__c && !n3.props.__P) return n3.__e = null, n3.__k.some(function(t4) {
return t4 && (n3.__e = t4.__e);
}), j(n3);
}
function L(t4) {
(8 & t4.__g || (t4.__g |= 8, u.push(t4), f++)) && i == n.debounceRendering || ((i = n.debounceRendering) || queueMicrotask)(H);
}
function H() {
try {
for (var n3, t4 = 1; u.length; ) u.length > t4 && u.sort(o), n3 = u.shift(), t4 = u.length, 8 & n3.__g && C(n3);
} finally {
(f = u.length) && (i || queueMicrotask)(H);
}
}
function I(n3, t4, r4, u4, i4, f5, o5, e4, l4, c4, a5) {
var s4, h5, v4, w5, d4, _3, g5 = u4.__k || y, k4 = t4.length;
for (l4 = q(r4, t4, g5, l4, k4), s4 = 0; s4 < k4; s4++) (v4 = r4.__k[s4]) != null && (h5 = ~v4.__i && g5[v4.__i] || p, v4.__i = s4, _3 = z(n3, v4, h5, i4, f5, o5, e4, l4, c4, a5), w5 = v4.__e, (h5.ref != v4.ref || 8 & h5.__u) && (h5.ref && G(h5.ref, null, v4, h5), v4.ref && a5.push(v4.ref, v4.__c || w5, v4)), d4 = d4 || w5, 4 & v4.__u ? (l4 = A(v4, l4, n3, !h5.__v), h5.__e && (h5.__e = null)) : typeof v4.type == "function" && _3 !== void 0 ? l4 = _3 : w5 && (l4 = w5.nextSibling), v4.__u &= -21);
return r4.__e = d4, l4;
}
function q(n3, t4, r4, u4, i4) {
var f5, o5, e4, l4, c4, a5, s4, p5, y5, v4 = r4.length, d4 = v4, _3 = 0, g5 = 0, k4 = n3.__k = Array(i4);
for (f5 = 0; f5 < i4; f5++) (o5 = t4[f5]) != null && typeof o5 != "boolean" && typeof o5 != "function" ? (typeof o5 != "object" || o5.constructor === String ? o5 = k4[f5] = m(null, o5) : w(o5) ? o5 = k4[f5] = m($, { children: o5 }) : o5.constructor === h && o5.__b ? o5 = k4[f5] = m(o5.type, o5.props, o5.key, o5.ref, o5.__v) : k4[f5] = o5, l4 = f5 + _3, o5.__ = n3, o5.__b = n3.__b + 1, e4 = null, ~(c4 = o5.__i = P(o5, r4, l4, d4)) && (d4--, (e4 = r4[c4]) && (e4.__u |= 2)), e4 && e4.__v ? (o5.__u |= 16, c4 == l4 - 1 ? _3-- : c4 == l4 + 1 ? _3++ : c4 != l4 && (c4 > l4 ? _3-- : _3++, g5 = 1)) : (~c4 || (i4 > v4 ? _3-- : i4 < v4 && _3++), typeof o5.type != "function" && (o5.__u |= 4))) : k4[f5] = null;
if (g5) {
for (a5 = [], s4 = [], f5 = 0; f5 < i4; f5++) if ((o5 = k4[f5]) && 16 & o5.__u) {
for (_3 = 0, p5 = a5.length; _3 < p5; ) a5[y5 = _3 + p5 >> 1] < o5.__i ? _3 = y5 + 1 : p5 = y5;
a5[_3] = o5.__i, s4[f5] = _3 + 1;
}
for (_3 = a5.length; f5--; ) s4[f5] && (s4[f5] == _3 ? _3-- : k4[f5].__u |= 4);
}
if (d4) for (f5 = 0; f5 < v4; f5++) !(e4 = r4[f5]) || 2 & e4.__u || (e4.__e == u4 && (u4 = S(e4)), J(e4, e4));
return u4;
}
function A(n3, t4, r4, u4) {
var i4, f5, o5, e4;
if (typeof n3.type == "function") {
if (n3.props.__P) return t4;
if (i4 = n3.__k) for (f5 = 0; f5 < i4.length; f5++) i4[f5] && (i4[f5].__ = n3, t4 = A(i4[f5], t4, r4, !1));
return t4;
}
for (t4 && !t4.parentNode && (t4 = S(n3)) && !t4.parentNode && (t4 = null), o5 = n3.__e, e4 = t4; e4 && e4.nodeType == 8; ) e4 = e4.nextSibling;
for (o5 != e4 && (!u4 && r4.moveBefore && o5.parentNode ? r4.moveBefore(o5, t4) : r4.insertBefore(o5, t4 || null)), t4 = o5; (t4 = t4 && t4.nextSibling) && t4.nodeType == 8 && !t4.data.startsWith("$s"); ) ;
return t4;
}
function P(n3, t4, r4, u4) {
var i4, f5 = n3.key, o5 = n3.type, e4 = t4[r4], l4 = e4 && !(2 & e4.__u);
if (e4 === null && f5 == null || l4 && f5 == e4.key && o5 == e4.type) return r4;
if (u4 > (l4 ? 1 : 0)) {
for (i4 = r4 - 1; i4 >= 0; i4--) if ((e4 = t4[i4]) && !(2 & e4.__u) && f5 == e4.key && o5 == e4.type) return i4;
for (i4 = r4 + 1; i4 < t4.length; i4++) if ((e4 = t4[i4]) && !(2 & e4.__u) && f5 == e4.key && o5 == e4.type) return i4;
}
return -1;
}
function T(n3, t4, r4) {
r4 == null && (r4 = ""), t4[0] == "-" ? n3.setProperty(t4, r4) : n3[t4] = r4;
}
function N(n3, t4, r4, u4, i4) {
var f5, o5;
if (t4 == "style") if (typeof r4 == "string") n3.style.cssText = r4;
else {
if (typeof u4 == "string" && (n3.style.cssText = u4 = ""), u4) for (t4 in u4) r4 && t4 in r4 || T(n3.style, t4);
if (r4) for (t4 in r4) u4 && r4[t4] == u4[t4] || T(n3.style, t4, r4[t4]);
}
else if (t4[0] == "o" && t4[1] == "n") typeof r4 != "function" && (r4 = null), typeof u4 != "function" && (u4 = null), (n3.__e || (n3.__e = {}))[t4] = r4, r4 && u4 || (o5 = a[t4] || (a[t4] = V(t4)), (n3.__a || (n3.__a = {}))[t4] = c, f5 = t4 != (t4 = t4.replace(l, "$1")), (t4 = t4.slice(2))[0] < "a" && (t4 = t4.toLowerCase()), r4 ? n3.addEventListener(t4, o5, f5) : n3.removeEventListener(t4, o5, f5));
else {
if (i4 == "http://www.w3.org/2000/svg") t4 = t4.replace(/xlink(H|:h)/, "h").replace(/sName$/, "s");
else if (t4 != "width" && t4 != "height" && t4 != "href" && t4 != "list" && t4 != "form" && t4 != "tabIndex" && t4 != "download" && t4 != "rowSpan" && t4 != "colSpan" && t4 != "role" && t4 != "popover" && t4 in n3) try {
return void (n3[t4] = r4 ?? "");
} catch {
}
if (typeof r4 == "function") return;
r4 == null || r4 === !1 && t4[4] != "-" ? n3.removeAttribute(t4) : n3.setAttribute(t4, t4 == "popover" && r4 == 1 ? "" : r4);
}
}
function V(t4) {
return function(r4) {
var u4 = this.__e;
if (u4) {
if (u4 = u4[t4], r4[e] == null) r4[e] = c++;
else if (r4[e] < this.__a[t4]) return;
return u4(n.event ? n.event(r4) : r4);
}
};
}
function z(t4, r4, u4, i4, f5, o5, e4, l4, c4, a5) {
var s4, p5, v4, d4, k4, b3, m5, M2, C3, j3, L2, H2, q2, A4, O2, P2, T4, N2, V2 = r4.type;
if (r4.constructor !== h) return null;
128 & u4.__u && (c4 = 32 & u4.__u, s4 = u4.__c.__z) && (r4.__u |= c4, p5 = o5 = [], s4.nodeType == 8 ? l4 = B(s4, o5) : o5.push(s4), l4 = o5[0] || l4), (s4 = n.__b) && s4(r4);
n: if (typeof V2 == "function") {
v4 = e4.length;
try {
if (M2 = r4.props, C3 = (s4 = V2.prototype) && s4.render, j3 = (s4 = V2.contextType) && i4[s4.__c], L2 = s4 ? j3 ? j3.props.value : s4.__ : i4, (d4 = u4.__c) ? (r4.__c = d4, 2 & d4.__g && (d4.__g |= 1)) : (C3 ? r4.__c = d4 = new V2(M2, L2) : (r4.__c = d4 = new x(M2, L2), d4.constructor = V2, d4.render = K), j3 && j3.sub(d4), d4.state || (d4.state = {}), d4.__n = i4, d4.__g |= 8, d4.__h = [], d4.__k = []), C3 && (d4.__s || (d4.__s = d4.state), V2.getDerivedStateFromProps && (d4.__s == d4.state && (d4.__s = _({}, d4.__s)), _(d4.__s, V2.getDerivedStateFromProps(M2, d4.__s)))), k4 = d4.props, b3 = d4.state, d4.__v = r4, u4.__c) {
if (M2 !== k4 && C3 && !V2.getDerivedStateFromProps && d4.componentWillReceiveProps && d4.componentWillReceiveProps(M2, L2), r4.__v == u4.__v && !(8 & d4.__g) || !(4 & d4.__g) && d4.shouldComponentUpdate && d4.shouldComponentUpdate(M2, d4.__s, L2) === !1) {
r4.__v != u4.__v && (d4.props = M2, d4.state = d4.__s, d4.__g &= -9), r4.__e = u4.__e, r4.__k = u4.__k, r4.__k.some(function(n3) {
n3 && (n3.__ = r4);
}), y.push.apply(d4.__h, d4.__k), d4.__k = [], d4.__h.length && e4.push(d4), l4 = S(u4);
break n;
}
d4.componentWillUpdate && d4.componentWillUpdate(M2, d4.__s, L2), C3 && d4.componentDidUpdate && d4.__h.push(function() {
d4.componentDidUpdate(k4, b3, m5);
});
} else C3 && !V2.getDerivedStateFromProps && d4.componentWillMount && d4.componentWillMount(), C3 && d4.componentDidMount && d4.__h.push(d4.componentDidMount);
d4.context = L2, d4.props = M2, d4.__P = t4, d4.__g &= -5, H2 = n.__r, q2 = C3 ? 25 : 0;
do
d4.__g &= -9, H2 && H2(r4), s4 = d4.render(d4.props, d4.state = d4.__s, d4.context);
while (8 & d4.__g && ++q2 < 25);
C3 && (y.push.apply(d4.__h, d4.__k), d4.__k = []), d4.state = d4.__s, d4.getChildContext && (i4 = _({}, i4, d4.getChildContext())), C3 && u4.__c && d4.getSnapshotBeforeUpdate && (m5 = d4.getSnapshotBeforeUpdate(k4, b3)), A4 = s4 && s4.type === $ && s4.key == null ? s4.props.children : s4, M2.__P && (s4 = l4, f5 = (t4 = M2.__P).namespaceURI, c4 = o5 = null, u4.props && u4.props.__P != t4 && (u4.__k.some(function(n3) {
n3 && J(n3, n3);
}), u4.__k = null), l4 = u4.__k ? S(u4, 0) : null), l4 = I(t4, w(A4) ? A4 : [A4], r4, u4, i4, f5, o5, e4, l4, c4, a5), M2.__P && (r4.__e = null, l4 = s4), r4.__u &= -161, p5 && p5.some(g), d4.__h.length && e4.push(d4), 1 & d4.__g && (d4.__g &= -4);
} catch (t5) {
if (e4.length = v4, r4.__v = null, c4 || o5) if (t5 && t5.then) {
if (r4.__u |= 128 | c4, o5) {
for (~(T4 = o5.indexOf(l4 || void 0)) || (T4 = o5.length); (N2 = o5[T4 - 1]) && N2.nodeType == 8; ) T4--;
for (; T4 < o5.length; T4++) if (N2 = o5[T4]) if (o5[T4] = null, O2) {
if (N2 == P2) break;
} else {
if (N2.nodeType != 8) break;
N2.data.startsWith("$s") && (P2 = B(O2 = N2));
}
}
if (!O2) {
for (; l4 && l4.nodeType == 8 && l4.nextSibling; ) l4 = l4.nextSibling;
O2 = l4;
}
(s4 = B(O2 = r4.__c.__z || (r4.__c.__z = O2))) ? (r4.__e = O2, l4 = s4) : r4.__e = l4, l4 = l4 && l4.nextSibling;
} else o5 && o5.some(g);
else r4.__e = u4.__e;
r4.__k || (r4.__k = u4.__k || []), t5 && t5.then || D(r4), n.__e(t5, r4, u4);
}
} else l4 = r4.__e = F(u4.__e, r4, u4, i4, f5, o5, e4, c4, a5, t4);
return (s4 = n.diffed) && s4(r4), l4;
}
function B(n3, t4) {
if (n3 && n3.nodeType == 8 && n3.data.startsWith("$s")) for (var r4 = 1; n3 = n3.nextSibling; ) {
if (n3.nodeType == 8) {
if (n3.data.startsWith("$s")) r4++;
else if (n3.data.startsWith("/$s") && !--r4) return n3;
}
t4 && t4.push(n3);
}
}
function D(n3) {
n3 && (n3.__c && (n3.__c.__g |= 4), n3.__k && n3.__k.some(D));
}
function E(t4, r4, u4) {
for (var i4 = 0; i4 < u4.length; ) G(u4[i4++], u4[i4++], u4[i4++]);
n.__c && n.__c(r4, t4), t4.some(function(r5) {
try {
t4 = r5.__h, r5.__h = [], t4.some(function(n3) {
n3.call(r5);
});
} catch (t5) {
n.__e(t5, r5.__v);
}
});
}
function F(t4, r4, u4, i4, f5, o5, e4, l4, c4, a5) {
var s4, h5, y5, _3, k4, b3, m5, M2, $2 = u4.props || p, x3 = r4.props, C3 = r4.type;
if (C3 == "svg" ? f5 = "http://www.w3.org/2000/svg" : C3 == "math" ? f5 = "http://www.w3.org/1998/Math/MathML" : f5 || (f5 = "http://www.w3.org/1999/xhtml"), o5) {
for (s4 = 0; s4 < o5.length; s4++) if ((k4 = o5[s4]) && (C3 ? k4.localName == C3 : k4.nodeType == 3)) {
t4 = k4, o5[s4] = null;
break;
}
}
if (!t4) {
if (M2 = a5.ownerDocument || document, !C3) return M2.createTextNode(x3);
t4 = M2.createElementNS(f5, C3, x3.is ? x3 : a5), l4 && (n.__m && n.__m(r4, o5), l4 = !1), o5 = null;
}
if (C3) {
if (a5 = C3 == "template" && t4.content || t4, o5 = C3 == "textarea" && x3.defaultValue != null ? null : o5 && d.call(a5.childNodes), !l4 && o5) for ($2 = {}, s4 = 0; s4 < t4.attributes.length; s4++) $2[(k4 = t4.attributes[s4]).name] = k4.value;
for (s4 in $2) k4 = $2[s4], s4 == "dangerouslySetInnerHTML" ? y5 = k4 : s4 == "children" || s4 in x3 || s4 == "value" && "defaultValue" in x3 || s4 == "checked" && "defaultChecked" in x3 || N(t4, s4, null, k4, f5);
for (s4 in x3) k4 = x3[s4], s4 == "children" ? _3 = k4 : s4 == "dangerouslySetInnerHTML" ? h5 = k4 : s4 == "value" ? b3 = k4 : s4 == "checked" ? m5 = k4 : l4 && typeof k4 != "function" || $2[s4] === k4 || N(t4, s4, k4, $2[s4], f5);
h5 ? (l4 || y5 && (h5.__html == y5.__html || h5.__html == t4.innerHTML) || (t4.innerHTML = h5.__html), r4.__k = []) : (y5 && (t4.textContent = ""), (C3 == "foreignObject" || f5 == "http://www.w3.org/1998/Math/MathML" && v.test(C3)) && (f5 = "http://www.w3.org/1999/xhtml"), I(a5, w(_3) ? _3 : [_3], r4, u4, i4, f5, o5, e4, o5 ? o5[0] : u4.__k && S(u4, 0), l4, c4), o5 && o5.some(g)), l4 && C3 != "textarea" || (s4 = "value", C3 == "progress" && b3 == null ? t4.removeAttribute(s4) : b3 == null || b3 === t4[s4] && (C3 != "progress" || b3) || N(t4, s4, b3, $2[s4], f5), s4 = "checked", m5 != null && m5 != t4[s4] && N(t4, s4, m5, $2[s4], f5));
} else $2 === x3 || l4 && t4.data == x3 || (t4.data = x3);
return t4;
}
function G(t4, r4, u4, i4) {
try {
typeof t4 == "function" ? r4 ? r4.__x = t4(r4) || 1 : i4 && (i4 = i4.__c || i4.__e) && (r4 = i4.__x) && (i4.__x = null, typeof r4 == "function" ? r4() : t4(null)) : t4.current = r4;
} catch (t5) {
n.__e(t5, u4);
}
}
function J(t4, r4, u4) {
var i4, f5, o5, e4;
if (n.unmount && n.unmount(t4), !(i4 = t4.ref) || i4.current && i4.current != t4.__e || G(i4, null, r4, t4), i4 = t4.__c) {
if (i4.componentWillUnmount) try {
i4.componentWillUnmount();
} catch (t5) {
n.__e(t5, r4);
}
i4.__P = i4.__n = null;
}
if (i4 = t4.__k) for (e4 = 0; e4 < i4.length; e4++) i4[e4] && J(i4[e4], r4, typeof t4.type != "function" || u4 && !t4.props.__P);
!u4 && (i4 = t4.__c) && (i4 = i4.__z) && (f5 = B(i4, o5 = [])) && (i4 == t4.__e && o5.some(g), g(f5), g(i4)), u4 || g(t4.__e), t4.__e = t4.__c = t4.__ = null;
}
function K(n3, t4, r4) {
return this.constructor(n3, r4);
}
function Q(t4, r4) {
var u4, i4, f5, o5;
n.__ && n.__(t4, r4), r4.nodeType == 9 && (r4 = r4.documentElement), i4 = (u4 = t4 && 32 & t4.__u) ? null : r4.__k, r4.__k = m($, { children: [t4] }), f5 = [], o5 = [], z(r4, r4.__k, i4 || p, p, r4.namespaceURI, i4 ? null : r4.firstChild ? d.call(r4.childNodes) : null, f5, i4 ? i4.__e : r4.firstChild, u4, o5), E(f5, r4.__k, o5), r4.__k.props.children = null;
}
n = { __e: function(n3, t4, r4, u4) {
for (var i4, o5, e4; t4 = t4.__; ) if ((i4 = t4.__c) && !(1 & i4.__g)) {
i4.__g |= 4;
try {
if ((e4 = (o5 = i4.constructor) && o5.getDerivedStateFromError) && i4.setState(o5.getDerivedStateFromError(n3)), i4.componentDidCatch && (i4.componentDidCatch(n3, u4 || {}), e4 = 1), e4 && 8 & i4.__g) return void (i4.__g |= 2);
} catch (t5) {
n3 = t5;
}
}
throw f = 0, n3;
} }, t = 0, r = function(n3) {
return n3 != null && n3.constructor === h;
}, x.prototype.setState = function(n3, t4) {
var r4 = this.__s;
r4 && r4 != this.state || (r4 = this.__s = _({}, this.state)), typeof n3 == "function" && (n3 = n3(_({}, r4), this.props)), n3 && (_(r4, n3), this.__v && (t4 && this.__k.push(t4), L(this)));
}, x.prototype.forceUpdate = function(n3) {
this.__v && (this.__g |= 4, n3 && this.__h.push(n3), L(this));
}, x.prototype.render = $, u = [], f = 0, o = function(n3, t4) {
return n3.__v.__b - t4.__v.__b;
}, e = /* @__PURE__ */ Symbol(), l = /(PointerCapture)$|Capture$/i, c = 0, a = {}, s = 0;

// node_modules/preact/hooks/dist/hooks.mjs
var t2, r2, u2, i2, o2 = Object.is, f2 = 0, c2 = [], e2 = [], a2 = n, v2 = a2.__b, l2 = a2.__r, m2 = a2.diffed, h2 = a2.__c, s2 = a2.unmount, p2 = a2.__;
function y2(n3, t4) {
a2.__h && a2.__h(r2, n3, f2 || t4), f2 = 0;
var u4 = r2.__H || (r2.__H = { __: [], __h: [] });
return n3 >= u4.__.length && u4.__.push({}), u4.__[n3];
}
function A2(n3, u4) {
var i4 = y2(t2++, 3);
!a2.__s && E2(i4.__H, u4) && (i4.__P = !0, i4.__ = n3, i4.u = u4, r2.__H.__h.push(i4));
}
function T2(n3) {
return f2 = 5, w2(function() {
return { current: n3 };
}, []);
}
function w2(n3, r4) {
var u4 = y2(t2++, 7);
return E2(u4.__H, r4) && (u4.__ = n3(), u4.__H = r4), u4.__;
}
function g2() {
var n3;
do {
for (; n3 = e2.shift(); ) try {
C2(n3);
} catch (t5) {
a2.__e(t5, { __: (n3 = n3.__P) && n3.__v });
}
for (; n3 = c2.shift(); ) {
var t4 = n3.__H;
if (n3.__P && t4) try {
t4.__h.some(C2), t4.__h.some(D2), t4.__h = [];
} catch (r4) {
t4.__h = [], a2.__e(r4, n3.__v);
}
}
} while (e2.length);
}
a2.__b = function(n3) {
r2 = null, v2 && v2(n3);
}, a2.__ = function(n3, t4) {
n3 && t4.__k && t4.__k.__m && (n3.__m = t4.__k.__m), p2 && p2(n3, t4);
}, a2.__r = function(n3) {
l2 && l2(n3), t2 = 0;
var i4 = (r2 = n3.__c).__H;
i4 && (u2 == r2 ? r2.__h = [] : (i4.__h.some(C2), i4.__h.some(D2), t2 = 0), i4.__h = [], i4.__.some(function(n4) {
n4.__N && (n4.__ = n4.__N), n4.u = n4.__N = void 0;
})), u2 = r2;
}, a2.diffed = function(n3) {
m2 && m2(n3);
var t4 = n3.__c;
t4 && t4.__H && (t4.__H.__h.length && B2(c2.push(t4)), t4.__H.__.some(function(n4) {
n4.u && (n4.__H = n4.u);
})), u2 = r2 = null;
}, a2.__c = function(n3, t4) {
t4.some(function(n4) {
try {
n4.__h.some(C2), n4.__h = n4.__h.filter(function(n5) {
return !n5.__ || D2(n5);
});
} catch (t5) {
n4.__h = [function() {
throw t5;
}];
}
}), h2 && h2(n3, t4);
}, a2.unmount = function(n3) {
s2 && s2(n3);
var t4, r4, u4 = n3.__c;
u4 && u4.__H && (u4.__H.__.some(function(u5) {
try {
if (u5.__P && u5.__c) {
if (r4 === void 0) {
for (r4 = n3.__; r4 && (!r4.__c || !r4.__c.__P); ) r4 = r4.__;
r4 = r4 && r4.__c;
}
u5.__P = r4, B2(e2.push(u5));
} else C2(u5);
} catch (n4) {
t4 = n4;
}
}), u4.__H = void 0, t4 && a2.__e(t4, u4.__v));
};
var k2 = typeof requestAnimationFrame == "function";
function z2(n3) {
var t4, r4 = function() {
clearTimeout(u4), k2 && cancelAnimationFrame(t4), setTimeout(n3);
}, u4 = setTimeout(r4, 35);
k2 && (t4 = requestAnimationFrame(r4));
}
function B2(n3) {
n3 != 1 && i2 == a2.requestAnimationFrame || ((i2 = a2.requestAnimationFrame) || z2)(g2);
}
function C2(n3) {
var t4 = r2, u4 = n3.__c;
typeof u4 == "function" && (n3.__c = void 0, u4()), r2 = t4;
}
function D2(n3) {
var t4 = r2;
n3.__c = n3.__(), r2 = t4;
}
function E2(n3, t4) {
return !n3 || n3.length != t4.length || t4.some(function(t5, r4) {
return !o2(t5, n3[r4]);
});
}

// node_modules/@preact/signals-core/dist/signals-core.module.js
var i3 = /* @__PURE__ */ Symbol.for("preact-signals");
function t3() {
if (v3 > 1)
v3--;
else {
var i4, t4 = !1;
for ((function() {
var i5 = c3;
for (c3 = void 0; i5 !== void 0; ) {
var t5 = i5.S;
if (t5.v === i5.v) for (var r5 = t5.t; r5 !== void 0; r5 = r5.x) r5.i === i5.i && (r5.i = t5.i);
i5 = i5.o;
}
})(); h3 !== void 0; ) {
var r4 = h3;
for (h3 = void 0, s3++; r4 !== void 0; ) {
var n3 = r4.u;
if (r4.u = void 0, r4.f &= -3, !(8 & r4.f) && w3(r4)) try {
r4.c();
} catch (r5) {
t4 || (i4 = r5, t4 = !0);
}
r4 = n3;
}
}
if (s3 = 0, v3--, t4) throw i4;
}
}
function r3(i4) {
if (v3 > 0) return i4();
u3 = ++e3, v3++;
try {
return i4();
} finally {
t3();
}
}
var n2, o3 = void 0;
function f3(i4) {
var t4 = o3, r4 = n2;
o3 = void 0, n2 = void 0;
try {
return i4();
} finally {
o3 = t4, n2 = r4;
}
}
var h3 = void 0, v3 = 0, s3 = 0, e3 = 0, u3 = 0, c3 = void 0, a3 = 0;
function d2(i4) {
if (o3 !== void 0) {
var t4 = i4.n;
if (t4 === void 0 || t4.t !== o3)
return t4 = { i: 0, S: i4, p: o3.s, n: void 0, t: o3, e: void 0, x: void 0, r: t4 }, o3.s !== void 0 && (o3.s.n = t4), o3.s = t4, i4.n = t4, 32 & o3.f && i4.S(t4), t4;
if (t4.i === -1)
return t4.i = 0, t4.n !== void 0 && (t4.n.p = t4.p, t4.p !== void 0 && (t4.p.n = t4.n), t4.p = o3.s, t4.n = void 0, o3.s.n = t4, o3.s = t4), t4;
}
}
function l3(i4, t4) {
this.v = i4, this.i = 0, this.n = void 0, this.t = void 0, this.l = 0, this.W = t4?.watched, this.Z = t4?.unwatched, this.name = t4?.name;
}
l3.prototype.brand = i3;
l3.prototype.h = function() {
return !0;
};
l3.prototype.S = function(i4) {
var t4 = this, r4 = this.t;
r4 !== i4 && i4.e === void 0 && (i4.x = r4, this.t = i4, r4 !== void 0 ? r4.e = i4 : f3(function() {
var i5;
(i5 = t4.W) == null || i5.call(t4);
}));
};
l3.prototype.U = function(i4) {
var t4 = this;
if (this.t !== void 0) {
var r4 = i4.e, n3 = i4.x;
r4 !== void 0 && (r4.x = n3, i4.e = void 0), n3 !== void 0 && (n3.e = r4, i4.x = void 0), i4 === this.t && (this.t = n3, n3 === void 0 && f3(function() {
var i5;
(i5 = t4.Z) == null || i5.call(t4);
}));
}
};
l3.prototype.subscribe = function(i4) {
var t4 = this;
return x2(function() {
var r4 = t4.value;
f3(function() {
return i4(r4);
});
}, { name: "sub" });
};
l3.prototype.valueOf = function() {
return this.value;
};
l3.prototype.toString = function() {
return this.value + "";
};
l3.prototype.toJSON = function() {
return this.value;
};
l3.prototype.peek = function() {
var i4 = this;
return f3(function() {
return i4.value;
});
};
Object.defineProperty(l3.prototype, "value", { get: function() {
var i4 = d2(this);
return i4 !== void 0 && (i4.i = this.i), this.v;
}, set: function(i4) {
if (i4 !== this.v) {
if (s3 > 100) throw new Error("Cycle detected");
(function(i5) {
v3 !== 0 && s3 === 0 && i5.l !== u3 && (i5.l = u3, c3 = { S: i5, v: i5.v, i: i5.i, o: c3 });
})(this), this.v = i4, this.i++, a3++, v3++;
try {
for (var r4 = this.t; r4 !== void 0; r4 = r4.x) r4.t.N();
} finally {
t3();
}
}
} });
function y3(i4, t4) {
return new l3(i4, t4);
}
function w3(i4) {
for (var t4 = i4.s; t4 !== void 0; t4 = t4.n) if (t4.S.i !== t4.i || !t4.S.h() || t4.S.i !== t4.i) return !0;
return !1;
}
function b(i4) {
for (var t4 = i4.s; t4 !== void 0; t4 = t4.n) {
var r4 = t4.S.n;
if (r4 !== void 0 && (t4.r = r4), t4.S.n = t4, t4.i = -1, t4.n === void 0) {
i4.s = t4;
break;
}
}
}
function _2(i4) {
for (var t4 = i4.s, r4 = void 0; t4 !== void 0; ) {
var n3 = t4.p;
t4.i === -1 ? (t4.S.U(t4), n3 !== void 0 && (n3.n = t4.n), t4.n !== void 0 && (t4.n.p = n3)) : r4 = t4, t4.S.n = t4.r, t4.r !== void 0 && (t4.r = void 0), t4 = n3;
}
i4.s = r4;
}
function j2(i4, t4) {
l3.call(this, void 0, t4), this.x = i4, this.s = void 0, this.g = a3 - 1, this.f = 4;
}
j2.prototype = new l3();
j2.prototype.h = function() {
if (this.f &= -3, 1 & this.f) return !1;
if ((36 & this.f) == 32 || (this.f &= -5, this.g === a3)) return !0;
if (this.g = a3, this.f |= 1, this.i > 0 && !w3(this))
return this.f &= -2, !0;
var i4 = o3;
try {
b(this), o3 = this;
var t4 = this.x();
(16 & this.f || this.v !== t4 || this.i === 0) && (this.v = t4, this.f &= -17, this.i++);
} catch (i5) {
this.v = i5, this.f |= 16, this.i++;
}
return o3 = i4, _2(this), this.f &= -2, !0;
};
j2.prototype.S = function(i4) {
if (this.t === void 0) {
this.f |= 36;
for (var t4 = this.s; t4 !== void 0; t4 = t4.n) t4.S.S(t4);
}
l3.prototype.S.call(this, i4);
};
j2.prototype.U = function(i4) {
if (this.t !== void 0 && (l3.prototype.U.call(this, i4), this.t === void 0)) {
this.f &= -33;
for (var t4 = this.s; t4 !== void 0; t4 = t4.n) t4.S.U(t4);
}
};
j2.prototype.N = function() {
if (!(2 & this.f)) {
this.f |= 6;
for (var i4 = this.t; i4 !== void 0; i4 = i4.x) i4.t.N();
}
};
Object.defineProperty(j2.prototype, "value", { get: function() {
if (1 & this.f) throw new Error("Cycle detected");
var i4 = d2(this);
if (this.h(), i4 !== void 0 && (i4.i = this.i), 16 & this.f) throw this.v;
return this.v;
} });
function O(i4, t4) {
return new j2(i4, t4);
}
function p3(i4) {
var r4 = i4.j;
if (i4.j = void 0, typeof r4 == "function") {
v3++;
var n3 = o3;
o3 = void 0;
try {
r4();
} catch (t4) {
throw i4.f &= -2, i4.f |= 8, g3(i4), t4;
} finally {
o3 = n3, t3();
}
}
}
function g3(i4) {
for (var t4 = i4.s; t4 !== void 0; t4 = t4.n) t4.S.U(t4);
i4.x = void 0, i4.s = void 0, p3(i4);
}
function S2(i4) {
if (o3 !== this) throw new Error("Out-of-order effect");
_2(this), o3 = i4, this.f &= -2;
try {
8 & this.f && g3(this);
} finally {
t3();
}
}
function m3(i4, t4) {
this.x = i4, this.j = void 0, this.s = void 0, this.u = void 0, this.f = 32, this.name = t4?.name, n2 && n2.push(this);
}
m3.prototype.c = function() {
var i4 = this.S();
try {
if (8 & this.f || this.x === void 0) return;
var t4 = this.x();
typeof t4 == "function" && (this.j = t4);
} finally {
i4();
}
};
m3.prototype.S = function() {
if (1 & this.f) throw new Error("Cycle detected");
this.f |= 1, this.f &= -9, p3(this), b(this), v3++;
var i4 = o3;
return o3 = this, S2.bind(this, i4);
};
m3.prototype.N = function() {
2 & this.f || (this.f |= 2, this.u = h3, h3 = this);
};
m3.prototype.d = function() {
this.f |= 8, 1 & this.f || g3(this);
};
m3.prototype.dispose = function() {
this.d();
};
function x2(i4, t4) {
var r4 = new m3(i4, t4);
try {
r4.c();
} catch (i5) {
throw r4.d(), i5;
}
var n3 = r4.d.bind(r4);
return n3[Symbol.dispose] = n3, n3;
}

// node_modules/@preact/signals/dist/signals.module.js
var h4, d3, p4, m4 = typeof window < "u" && !!window.__PREACT_SIGNALS_DEVTOOLS__;
var g4 = [];
x2(function() {
h4 = this.N;
})();
function b2(i4, n3) {
n[i4] = n3.bind(null, n[i4] || function() {
});
}
function y4(i4) {
if (p4) {
var n3 = p4;
p4 = void 0, n3();
}
p4 = i4 && i4.S();
}
function w4(i4) {
var n3 = this, r4 = i4.data, t4 = useSignal(r4);
t4.name = "ReactiveDom", t4.value = r4;
var e4 = w2(function() {
for (var i5 = n3, r5 = n3.__v; r5 = r5.__; ) if (r5.__c) {
r5.__c.__$f |= 4;
break;
}
var o5 = O(function() {
var i6 = t4.value.value;
return i6 === 0 ? 0 : i6 === !0 ? "" : i6 || "";
}), e5 = O(function() {
return !Array.isArray(o5.value) && !r(o5.value);
}), u5 = x2(function() {
if (this.N = M, e5.value) {
var n4 = o5.value;
i5.__v && i5.__v.__e && i5.__v.__e.nodeType === 3 && (i5.__v.__e.data = n4);
}
}), c5 = n3.__$u.d;
return n3.__$u.d = function() {
u5(), c5.call(this);
}, [e5, o5];
}, []), u4 = e4[0], c4 = e4[1];
return u4.value ? c4.peek() : c4.value;
}
w4.displayName = "ReactiveTextNode";
Object.defineProperties(l3.prototype, { constructor: { configurable: !0, value: k($, null).constructor }, type: { configurable: !0, value: w4 }, props: { configurable: !0, get: function() {
var i4 = this;
return { data: { get value() {
return i4.value;
} } };
} }, __b: { configurable: !0, value: 1 } });
b2("__b", function(i4, n3) {
if (y4(), d3 = void 0, typeof n3.type == "string") {
var r4, t4 = n3.props;
for (var f5 in t4) if (f5 !== "children") {
var o5 = t4[f5];
o5 instanceof l3 && (r4 || (n3.__np = r4 = {}), r4[f5] = o5, t4[f5] = o5.peek());
}
}
i4(n3);
});
b2("__r", function(i4, r4) {
if (i4(r4), r4.type !== $) {
y4();
var t4, f5 = r4.__c;
f5 && (f5.__$f &= -2, (t4 = f5.__$u) === void 0 && (f5.__$u = t4 = (function(i5, n3) {
var r5;
return x2(function() {
r5 = this;
}, { name: n3 }), r5.c = i5, r5;
})(/* @__PURE__ */ (function(i5) {
return function() {
var n3;
m4 && ((n3 = this.y) == null || n3.call(this)), i5.__$f |= 1, i5.setState({});
};
})(f5), typeof r4.type == "function" ? r4.type.displayName || r4.type.name : ""))), d3 = f5, y4(t4);
}
});
b2("__e", function(i4, n3, r4, t4) {
y4(), d3 = void 0, i4(n3, r4, t4);
});
b2("diffed", function(i4, n3) {
y4(), d3 = void 0;
var r4;
if (typeof n3.type == "string" && (r4 = n3.__e)) {
var t4 = n3.__np, f5 = n3.props, o5 = r4.U;
if (o5) for (var e4 in o5) {
var u4 = o5[e4];
u4 === void 0 || t4 && e4 in t4 || (u4.d(), o5[e4] = void 0);
}
if (t4) {
o5 || (o5 = {}, r4.U = o5);
for (var a5 in t4) {
var c4 = o5[a5], v4 = t4[a5];
c4 === void 0 ? (c4 = k3(r4, a5, v4, f5), o5[a5] = c4) : c4.o(v4, f5);
}
}
}
i4(n3);
});
function k3(i4, n3, r4, t4) {
var f5 = n3 in i4 && i4.ownerSVGElement === void 0, o5 = y3(r4);
return { o: function(i5, n4) {
o5.value = i5, t4 = n4;
}, d: x2(function() {
this.N = M;
var r5 = o5.value.value;
t4[n3] !== r5 && (t4[n3] = r5, f5 ? i4[n3] = r5 : r5 != null && (r5 !== !1 || n3[4] === "-") ? i4.setAttribute(n3, r5) : i4.removeAttribute(n3));
}) };
}
b2("unmount", function(i4, n3) {
if (typeof n3.type == "string") {
var r4 = n3.__e;
if (r4) {
var t4 = r4.U;
if (t4) {
r4.U = void 0;
for (var f5 in t4) {
var o5 = t4[f5];
o5 && o5.d();
}
}
}
var e4 = n3.__np;
if (e4) {
var u4 = n3.props;
for (var a5 in e4) u4[a5] = e4[a5];
}
n3.__np = void 0;
} else {
var c4 = n3.__c;
if (c4) {
c4.__$f |= 8;
var v4 = c4.__$u;
v4 && (c4.__$u = void 0, v4.d());
}
}
i4(n3);
});
b2("__h", function(i4, n3, r4, t4) {
t4 < 3 && (n3.__$f |= 2), i4(n3, r4, t4);
});
x.prototype.shouldComponentUpdate = function(i4, n3) {
if (this.__R) return !0;
var r4 = this.__$u, t4 = r4 && r4.s !== void 0;
for (var f5 in n3) return !0;
if (this.__f || typeof this.u == "boolean" && this.u === !0) {
var o5 = 2 & this.__$f;
if (!(t4 || o5 || 4 & this.__$f) || 1 & this.__$f) return !0;
} else if (!(t4 || 4 & this.__$f) || 3 & this.__$f) return !0;
for (var e4 in i4) if (e4 !== "__source" && i4[e4] !== this.props[e4]) return !0;
for (var u4 in this.props) if (!(u4 in i4)) return !0;
return !1;
};
function useSignal(i4, n3) {
return w2(function() {
return y3(i4, n3);
}, []);
}
function useComputed(i4, n3) {
var r4 = T2(i4);
return r4.current = i4, d3.__$f |= 4, w2(function() {
return O(function() {
return r4.current();
}, n3);
}, []);
}
var A3 = function(i4) {
queueMicrotask(function() {
queueMicrotask(i4);
});
};
function F2() {
r3(function() {
for (var i4; i4 = g4.shift(); ) h4.call(i4);
});
}
function M() {
g4.push(this) === 1 && (n.requestAnimationFrame || A3)(F2);
}

// src/model/time.ts
var NEXT_STYLE = { relative: "local", local: "utc", utc: "relative" }, STORED = "tenure.time", timeStyle = y3("relative");
function rememberTimeStyle(storage) {
let stored = storage.getItem(STORED);
(stored === "relative" || stored === "local" || stored === "utc") && (timeStyle.value = stored), x2(() => storage.setItem(STORED, timeStyle.value));
}
var offset = 0, clock = y3(Date.now());
function heard(serverTime, sent) {
let received = Date.now();
received - sent < 1e3 && (offset = Date.parse(serverTime) - (sent + received) / 2);
}
var clockOffset = () => offset, now = () => Date.now() + offset;
function startClock() {
setInterval(() => {
clock.value = now();
}, 1e3);
}
var ms = (time) => time == null ? void 0 : Date.parse(time), two = (n3) => String(n3).padStart(2, "0");
function span(duration2) {
let t4 = Math.max(0, duration2);
if (t4 < 1e3) return `${Math.round(t4)} ms`;
if (t4 < 59950) return `${(t4 / 1e3).toFixed(1)} s`;
let s4 = Math.round(t4 / 1e3);
return s4 < 3600 ? `${Math.floor(s4 / 60)} min ${two(s4 % 60)} s` : s4 < 86400 ? `${Math.floor(s4 / 3600)} h ${two(Math.floor(s4 % 3600 / 60))} min` : `${Math.floor(s4 / 86400)} d ${Math.floor(s4 % 86400 / 3600)} h`;
}
function roughly(duration2) {
let t4 = Math.max(0, duration2);
return t4 < 1e3 ? `${Math.round(t4)} ms` : t4 < 6e4 ? `${Math.floor(t4 / 1e3)} s` : t4 < 36e5 ? `${Math.floor(t4 / 6e4)} min` : t4 < 1728e5 ? `${Math.floor(t4 / 36e5)} h` : `${Math.floor(t4 / 864e5)} d`;
}
function relative(at, from) {
let t4 = from - at;
return Math.abs(t4) < 1e3 ? "now" : t4 > 0 ? `${roughly(t4)} ago` : `in ${roughly(-t4)}`;
}
function clockTime(at, from, utc, withMs = !1) {
let date = new Date(at), part = (name, of = date) => utc ? of[`getUTC${name}`]() : of[`get${name}`](), day = (of) => `${part("FullYear", of)}-${two(part("Month", of) + 1)}-${two(part("Date", of))}`, fraction = withMs ? `.${String(date.getTime() % 1e3).padStart(3, "0")}` : "", time = `${two(part("Hours"))}:${two(part("Minutes"))}:${two(part("Seconds"))}${fraction}`;
return day(date) === day(new Date(from)) ? time : `${day(date)} ${time}`;
}
function spell(at, from, style) {
return style === "relative" ? relative(at, from) : clockTime(at, from, style === "utc");
}
function axisTime(t4, step) {
if (t4 < 1e3 && step < 1e3) return `+${trim(t4, step)} ms`;
if (t4 < 6e4) return `+${trim(t4 / 1e3, step / 1e3)} s`;
let s4 = Math.floor(t4 / 1e3), rest = step < 1e3 ? `.${String(Math.floor(t4 % 1e3)).padStart(3, "0").slice(0, step < 100 ? 2 : 1)}` : "";
if (s4 < 3600) return `+${Math.floor(s4 / 60)}:${two(s4 % 60)}${rest}`;
let hours = Math.floor(s4 / 3600);
return hours < 48 ? `+${hours}:${two(Math.floor(s4 % 3600 / 60))}:${two(s4 % 60)}` : `+${Math.floor(s4 / 86400)} d ${two(hours % 24)}:${two(Math.floor(s4 % 3600 / 60))}`;
}
function trim(value, step) {
let digits = step >= 1 ? 0 : step >= 0.1 ? 1 : 2;
return value.toFixed(digits);
}

// src/data/feed.ts
var PERIOD = {
runs: 2e3,
run: 1e3,
queues: 4e3,
inbox: 3e3,
overview: 5e3,
operate: 1e4
}, COST_FACTOR = 20, BACKOFF_MAX_MS = 8e3, isLive = y3(!0), asOf = y3(now()), failures = 0;
function fresh() {
failures = 0, isLive.value = !0, asOf.value = now();
}
function lost() {
failures += 1, isLive.value = !1;
}
function follow(topic, read5) {
let timer, isOver = !1, round = async () => {
let started = performance.now();
if (document.visibilityState === "visible" && await read5(), isOver) return;
let took = performance.now() - started, backoff = failures === 0 ? 0 : Math.min(BACKOFF_MAX_MS, 500 * 2 ** failures);
timer = setTimeout(round, Math.max(PERIOD[topic], took * COST_FACTOR, backoff));
}, wake = () => {
document.visibilityState !== "visible" || isOver || (clearTimeout(timer), timer = setTimeout(round, 0));
};
return document.addEventListener("visibilitychange", wake), round(), () => {
isOver = !0, clearTimeout(timer), document.removeEventListener("visibilitychange", wake);
};
}
function markTitle() {
x2(() => {
let plain3 = document.title.replace(/^○ /, "");
document.title = isLive.value ? plain3 : `○ ${plain3}`;
});
}

// src/router.ts
var ADDRESS_MAX = 4096, base = () => new URL(".", document.baseURI).pathname;
function placeOf(address2, root) {
return { path: (address2.pathname.startsWith(root) ? address2.pathname.slice(root.length) : "").split("/").filter(Boolean), query: new URLSearchParams(address2.search) };
}
var place = y3({ path: [], query: new URLSearchParams() });
function startRouter() {
let read5 = () => {
place.value = placeOf(location, base());
};
addEventListener("popstate", read5), addEventListener("click", onClick), read5();
}
function go(to, { replace = !1 } = {}) {
let url = new URL(to === "" ? "./" : to, document.baseURI);
if (url.href.length > ADDRESS_MAX) return;
url.href !== location.href && history[replace ? "replaceState" : "pushState"](null, "", url.href);
let isOther = placeOf(url, base()).path.join("/") !== place.value.path.join("/");
place.value = placeOf(url, base()), isOther && !replace && scrollTo(0, 0);
}
function withQuery(changes, from = place.value) {
let query = new URLSearchParams(from.query);
for (let [name, value] of Object.entries(changes))
value === void 0 || value === "" ? query.delete(name) : query.set(name, value);
let text2 = query.toString();
return from.path.join("/") + (text2 === "" ? "" : `?${text2}`);
}
function onClick(event) {
if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
return;
let link = event.target?.closest?.("a[href]");
if (!link || link.hasAttribute("target")) return;
let url = new URL(link.getAttribute("href"), document.baseURI);
url.origin !== location.origin || !url.pathname.startsWith(base()) || (event.preventDefault(), go(url.href));
}

// src/session.ts
var STORED2 = "tenure.session", person = y3(null), endedBecause = y3(""), key = "";
function looksLikeKey(text2) {
return /^tnr_[0-9a-z]+_[0-9a-z]+_[0-9a-z]+$/i.test(text2.trim());
}
function restore() {
let stored = sessionStorage.getItem(STORED2);
stored && begin(stored);
}
function begin(secret) {
key = secret.trim(), sessionStorage.setItem(STORED2, key), endedBecause.value = "", person.value = { keyId: key.split("_")[1] ?? "" };
}
function end(because = "") {
key = "", sessionStorage.removeItem(STORED2), endedBecause.value = because, person.value = null;
}
function credentials() {
return key === "" ? {} : { authorization: `Bearer ${key}` };
}
function credentialsOf(secret) {
return { authorization: `Bearer ${secret.trim()}` };
}

// src/api/scan.ts
var PAYLOADS = /* @__PURE__ */ new Set([
"input",
"output",
"result",
"payload",
"partialProgress",
"body",
"fields",
"declaration"
]), OPAQUE = /* @__PURE__ */ new Set(["labels", "detail", "inputSchema", "outputSchema"]);
function parse(text2) {
let out = [], copied = 0;
for (let [start, end2] of payloads(text2))
out.push(text2.slice(copied, start), JSON.stringify(text2.slice(start, end2))), copied = end2;
return out.push(text2.slice(copied)), JSON.parse(out.join(""));
}
function payloads(text2) {
let found = [], at = 0;
for (; at < text2.length; ) {
if (text2[at] !== '"') {
at++;
continue;
}
let end2 = stringEnd(text2, at), colon = skipSpace(text2, end2);
if (text2[colon] !== ":") {
at = end2;
continue;
}
let name = text2.slice(at + 1, end2 - 1), value = skipSpace(text2, colon + 1);
PAYLOADS.has(name) ? (at = valueEnd(text2, value), found.push([value, at])) : at = OPAQUE.has(name) ? valueEnd(text2, value) : value;
}
return found;
}
function stringEnd(text2, at) {
let i4 = at + 1;
for (; i4 < text2.length && text2[i4] !== '"'; ) i4 += text2[i4] === "\\" ? 2 : 1;
return i4 + 1;
}
function skipSpace(text2, at) {
let i4 = at;
for (; i4 < text2.length && ` 	\r
`.includes(text2[i4]); ) i4++;
return i4;
}
function valueEnd(text2, at) {
let i4 = at, depth = 0;
do {
let c4 = text2[i4];
if (c4 === '"') {
i4 = stringEnd(text2, i4);
continue;
}
if ((c4 === "{" || c4 === "[") && depth++, (c4 === "}" || c4 === "]") && depth--, i4++, depth === 0 && c4 !== "}" && c4 !== "]")
for (; i4 < text2.length && !` 	\r
,}]`.includes(text2[i4]); ) i4++;
} while (depth > 0 && i4 < text2.length);
return i4;
}

// src/api/call.ts
var Problem = class extends Error {
constructor(status, code2, title, message, requestId = "") {
super(message);
this.status = status;
this.code = code2;
this.title = title;
this.message = message;
this.requestId = requestId;
}
status;
code;
title;
message;
requestId;
get isUnreachable() {
return this.status === 0 || this.status === 502 || this.status === 503 || this.status === 504;
}
}, TIMEOUT_MS = 2e4;
function get(path2, options = {}) {
return call("GET", path2, options);
}
function post(path2, body, options = {}) {
return call("POST", path2, { ...options, body });
}
async function call(method, path2, options) {
let sent = Date.now(), response = await reach(method, path2, options), text2 = await response.text().catch(() => "");
if (!response.ok && !isAlsoAnswer(response, options)) throw refused(response, text2);
let answer2 = parse(text2);
return typeof answer2.serverTime == "string" && heard(answer2.serverTime, sent), answer2;
}
function isAlsoAnswer(response, { alsoAnswer }) {
let type = response.headers.get("content-type") ?? "";
return response.status === alsoAnswer && /^application\/json\b/.test(type);
}
async function getText(path2, options = {}) {
let response = await reach("GET", path2, { ...options, headers: { accept: "text/plain" } }), text2 = await response.text().catch(() => "");
if (!response.ok) throw refused(response, text2);
return text2;
}
async function reach(method, path2, options) {
let headers = {
accept: "application/json",
...credentials(),
...options.headers
};
options.body !== void 0 && (headers["content-type"] = "application/json"), options.idempotencyKey && (headers["idempotency-key"] = options.idempotencyKey);
let limits = [AbortSignal.timeout(TIMEOUT_MS), ...options.signal ? [options.signal] : []];
try {
return await fetch(address(path2, options.query), {
method,
headers,
body: options.body === void 0 ? void 0 : JSON.stringify(options.body),
signal: AbortSignal.any(limits),
cache: "no-store",
redirect: "error"
});
} catch (error2) {
throw options.signal?.aborted ? error2 : new Problem(
0,
"unreachable",
"The server does not answer",
"no answer came from the server; it may be restarting, or the network is down"
);
}
}
var API = "../";
function address(path2, query) {
let url = new URL(API + path2, document.baseURI), members = query instanceof URLSearchParams ? query : Object.entries(query ?? {});
for (let [name, value] of members)
value != null && value !== "" && url.searchParams.append(name, String(value));
return url.href;
}
function refused(response, text2) {
let body = {};
try {
body = JSON.parse(text2);
} catch {
}
let {
error: error2 = `http_${response.status}`,
title = `The server answered ${response.status}`,
message = "",
requestId = ""
} = body, problem = new Problem(response.status, error2, title, message, requestId);
return response.status === 401 && person.value && end("The server no longer takes your key: it was revoked or has expired"), problem;
}
var inPath = (name) => name.replaceAll("/", "~"), runIdOf = (id) => id.replace(/^task_/, "run_");

// src/access.ts
var ONE = { limit: 1 }, QUESTIONS = {
runs: ["v1/runs", ONE],
approvals: ["v1/approvals", ONE],
schedules: ["v1/schedules", ONE],
effects: ["v1/effects", ONE],
deployments: ["v1/deployments", ONE],
// Also for limits, budgets and tasks that are set aside, which the same keys may read.
audit: ["v1/audit", ONE],
keys: ["v1/keys", ONE]
}, NOTHING_YET = { isKnown: !1, refused: {} }, access = y3(NOTHING_YET), mayRead = (what) => access.value.isKnown && access.value.refused[what] === void 0;
async function discoverAccess() {
access.value = NOTHING_YET;
let refused2 = {}, ask = async (what) => {
let [path2, query] = QUESTIONS[what];
try {
return await get(path2, { query });
} catch (error2) {
error2 instanceof Problem && error2.status === 403 && (refused2[what] = error2);
return;
}
}, others = Object.keys(QUESTIONS).filter((what) => what !== "runs"), [runs] = await Promise.all([ask("runs"), ...others.map((what) => ask(what))]), run = runs?.runs[0];
access.value = { isKnown: !0, refused: refused2, tenant: run?.tenantId, workspace: run?.workspaceId };
}

// src/map.ts
var PAGES = [
{ name: "Overview", to: "", key: "o", needs: ["runs"], icon: "M2 8h3l2-5 3 9 2-4h3" },
{ name: "Runs", to: "runs", key: "r", needs: ["runs"], icon: "M2 3.500h12M2 8h9M2 12.500h6" },
{
name: "Inbox",
to: "inbox",
key: "i",
needs: ["approvals"],
icon: "M2 9l2-6h8l2 6v4H2zM2 9h4l1 2h2l1-2h4"
},
{
name: "Queues",
to: "queues",
key: "q",
needs: ["runs"],
group: "Work",
icon: "M3 3h10v3H3zM3 8h10v1H3zM3 11h10v1H3z"
},
{
name: "Schedules",
to: "schedules",
key: "s",
needs: ["schedules"],
group: "Work",
icon: "M2.500 4h11v9.500h-11zM2.500 7h11M5 2v3M11 2v3"
},
{
name: "Effects",
to: "effects",
key: "e",
needs: ["effects"],
group: "Work",
icon: "M2 8h8M7 4.500l3.500 3.500L7 11.500M13 3v10"
},
{
name: "Topologies",
to: "topologies",
key: "t",
needs: ["deployments"],
group: "Work",
icon: "M2 3h4.500v3.500H2zM9.500 9.500H14V13H9.500zM6.500 4.800H12v4.700"
},
{
name: "Limits",
to: "limits",
key: "l",
needs: ["audit"],
group: "Operate",
icon: "M3 13.500V8M8 13.500v-11M13 13.500V6"
},
{
name: "Audit",
to: "audit",
key: "a",
needs: ["audit"],
group: "Operate",
icon: "M3.500 2h9v12h-9zM6 5.500h4M6 8h4M6 10.500h2.500"
},
{
name: "Keys",
to: "keys",
key: "k",
needs: ["keys"],
group: "Operate",
icon: "M7.500 8a2.800 2.800 0 1 1-5.600 0a2.800 2.800 0 0 1 5.600 0M7.500 8H14v2.800M11 8v2"
},
{
name: "Health",
to: "health",
key: "h",
needs: ["runs", "audit"],
group: "Operate",
icon: "M8 13.500L2.900 8.200a3.200 3.200 0 0 1 5.100-3.700a3.200 3.200 0 0 1 5.100 3.700z"
}
];
function refusalOf({ needs: needs2 }) {
return needs2.some(mayRead) ? void 0 : access.value.refused[needs2[0]];
}
var offered = () => PAGES.filter(({ needs: needs2 }) => needs2.some(mayRead));
function entryOf(first) {
return first === void 0 ? offered()[0] : PAGES.find(({ to }) => to === first);
}

// src/keys.ts
var TARGETS = new Map(PAGES.map(({ key: key2, to }) => [key2, to])), CHORD_MS = 1200;
function startKeys({ help }) {
let chordUntil = 0, onKey = (event) => {
if (!(event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target))) {
if (performance.now() < chordUntil) {
chordUntil = 0;
let page = TARGETS.get(event.key);
if (page !== void 0) return act(event, () => go(page));
}
switch (event.key) {
case "/":
return act(event, () => document.getElementById("jump")?.focus());
case "?":
return act(event, help);
case "t":
return act(event, () => {
timeStyle.value = NEXT_STYLE[timeStyle.value];
});
case "g":
chordUntil = performance.now() + CHORD_MS;
return;
case "j":
return act(event, () => move(1));
case "k":
return act(event, () => move(-1));
case ".":
return act(
event,
() => document.querySelector("[data-actions] button:not(:disabled)")?.focus()
);
default:
return;
}
}
};
return addEventListener("keydown", onKey), () => removeEventListener("keydown", onKey);
}
function act(event, what) {
event.preventDefault(), what();
}
function isTyping(target) {
return target instanceof HTMLElement && (target.matches("input, textarea, select") || target.closest("dialog") !== null);
}
function move(by) {
let rows = [...document.querySelectorAll("[data-row]")], at = rows.indexOf(document.activeElement), next2 = rows[at < 0 ? by > 0 ? 0 : rows.length - 1 : Math.min(rows.length - 1, Math.max(0, at + by))];
next2?.focus(), next2?.scrollIntoView({ block: "nearest" });
}

// src/model/shown.ts
var HIDDEN_RANGES = [
[0, 8],
[11, 31],
[127, 159],
[173, 173],
[1564, 1564],
[4447, 4448],
[6155, 6159],
[8203, 8207],
[8232, 8238],
[8288, 8303],
[12644, 12644],
[65024, 65039],
[65279, 65279],
[65529, 65531],
[917504, 921599]
], spelled = (code2) => `\\u{${code2.toString(16)}}`, HIDDEN = new RegExp(HIDDEN_RANGES.map(([a5, b3]) => `[${spelled(a5)}-${spelled(b3)}]`).join("|"), "gu");
function visible(text2) {
return text2.replace(HIDDEN, (c4) => `‹U+${c4.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}
function jsonLines(text2) {
let lines = [], line2 = { indent: 0, tokens: [] }, depth = 0, push = (kind, token) => line2.tokens.push({ kind, text: token }), feed = () => {
line2.tokens.length > 0 && lines.push(line2), line2 = { indent: depth, tokens: [] };
}, tokens = text2.match(/"(?:[^"\\]|\\[\s\S])*"?|[{}[\]:,]|[^\s"{}[\]:,]+/g) ?? [];
return tokens.forEach((token, i4) => {
let next2 = tokens[i4 + 1];
if (token === "{" || token === "[") {
if (push("mark", token), next2 === "}" || next2 === "]") return;
depth++, feed();
} else token === "}" || token === "]" ? (tokens[i4 - 1] === "{" || tokens[i4 - 1] === "[" || (depth = Math.max(0, depth - 1), feed()), push("mark", token)) : token === "," ? (push("mark", token), feed()) : token === ":" ? push("mark", ": ") : token.startsWith('"') ? push(next2 === ":" ? "name" : "string", token) : push(/^-?\d/.test(token) ? "number" : "word", token);
}), feed(), lines;
}
function tableRows(text2) {
let value;
try {
value = JSON.parse(text2);
} catch {
return;
}
if (value === null || typeof value != "object" || Array.isArray(value)) return;
let rows = [], lines = jsonLines(text2).slice(1, -1);
for (let line2 of lines) {
let [name, colon, scalar2] = line2.tokens;
if (line2.indent !== 1 || name?.kind !== "name" || colon?.text !== ": " || !scalar2 || scalar2.kind === "mark")
return;
rows.push([unquoted(name.text), scalar2.kind === "string" ? unquoted(scalar2.text) : scalar2.text]);
}
return rows.length > 0 ? rows : void 0;
}
function unquoted(text2) {
try {
return JSON.parse(text2);
} catch {
return text2;
}
}

// src/data/query.ts
function useQuery(key2, topic, read5) {
let data = useSignal(void 0), problem = useSignal(void 0), latest = T2(read5);
latest.current = read5;
let again = T2(async () => {
});
return A2(() => {
let stop = new AbortController();
data.value = void 0, problem.value = void 0, again.current = async () => {
try {
let value = await latest.current(stop.signal);
if (stop.signal.aborted) return;
data.value = value, problem.value = void 0, fresh();
} catch (error2) {
if (stop.signal.aborted) return;
problem.value = asProblem(error2), problem.value.isUnreachable ? lost() : fresh();
}
};
let end2 = topic ? follow(topic, () => again.current()) : void 0;
return topic || again.current(), () => {
stop.abort(), end2?.();
};
}, [key2, topic]), { data, problem, again: () => again.current() };
}
function asProblem(error2) {
if (error2 instanceof Problem) return error2;
let message = error2 instanceof Error ? error2.message : String(error2);
return new Problem(-1, "console_defect", "The console could not read the answer", message);
}

// src/model/command.ts
function quote(word) {
return /^[A-Za-z0-9_./:=@%+,#-]+$/.test(word) && !word.startsWith("#") ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
function command(...words2) {
return ["tenure", ...words2.filter((word) => typeof word == "string")].map(quote).join(" ");
}
function listCommand(filters) {
let words2 = [];
for (let name of ["state", "queue", "kind", "label", "worker", "category", "since"])
for (let value of filters.getAll(name)) words2.push(`--${name}`, value);
return command("runs", "list", ...words2, filters.get("children") === "true" && "--children");
}

// node_modules/preact/jsx-runtime/dist/jsxRuntime.mjs
var f4 = /* @__PURE__ */ Symbol.for("pv"), o4 = 0;
function a4(t4, e4, n3, u4, a5, i4) {
e4 || (e4 = {});
var c4, l4, p5 = e4;
if ("ref" in p5 && typeof t4 != "function") for (l4 in p5 = {}, e4) l4 == "ref" ? c4 = e4[l4] : p5[l4] = e4[l4];
var s4 = { type: t4, props: p5, key: n3, ref: c4, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: f4, __v: --o4, __i: -1, __u: 0 };
return (a5 || i4) && (s4.__source = a5, s4.__self = i4), n.vnode && n.vnode(s4), s4;
}

// src/parts/bits.tsx
function Time({ at }) {
let t4 = typeof at == "number" ? at : ms(at);
if (t4 === void 0 || Number.isNaN(t4)) return a4("span", { class: "muted", children: "–" });
let tip = `${relative(t4, clock.value)}
local ${clockTime(t4, 0, !1, !0)}
UTC ${clockTime(t4, 0, !0, !0)}`;
return a4("time", { class: "num", dateTime: new Date(t4).toISOString(), title: tip, children: spell(t4, clock.value, timeStyle.value) });
}
function Copy({ text: text2, label = "copy" }) {
let isDone = useSignal(!1);
return a4("button", { type: "button", class: "copy", onClick: async () => {
try {
await navigator.clipboard.writeText(text2);
} catch {
copyBySelection(text2);
}
isDone.value = !0, setTimeout(() => {
isDone.value = !1;
}, 1500);
}, "aria-label": `${label}: ${text2.slice(0, 80)}`, children: isDone.value ? "copied" : label });
}
function copyBySelection(text2) {
let field = document.createElement("textarea");
field.value = text2, document.body.append(field), field.select(), document.execCommand("copy"), field.remove();
}
function Cli({ line: line2 }) {
return a4("div", { class: "cli", children: [
a4("code", { children: line2 }),
a4(Copy, { text: line2 })
] });
}
function Card(props) {
return a4("section", { class: `card ${props.class ?? ""}`, children: [
a4("header", { children: [
a4("h2", { children: props.title }),
props.note && a4("span", { class: "muted", children: props.note }),
a4("span", { class: "sp" }),
props.aside
] }),
props.children
] });
}
function Failed({
problem,
again,
deed = "read"
}) {
let isForbidden = problem.status === 403;
return a4("div", { class: "notice t-bad", role: "alert", children: [
a4("b", { children: isForbidden ? `This key may not ${deed} this` : problem.title }),
a4("p", { children: problem.message }),
a4("p", { class: "muted", children: [
a4("code", { children: problem.code }),
problem.requestId && a4($, { children: [
" · request ",
a4("code", { children: problem.requestId })
] }),
again && a4($, { children: [
" · ",
a4("button", { type: "button", class: "link", onClick: again, children: "try again" })
] })
] })
] });
}
function Loading({ rows = 4 }) {
return a4("div", { class: "loading", "aria-hidden": "true", children: Array.from({ length: rows }, (_3, i4) => a4("i", {}, i4)) });
}
function Empty({
title,
children,
lines = []
}) {
return a4("div", { class: "empty", children: [
a4("b", { children: title }),
children && a4("p", { children }),
lines.map((line2) => a4(Cli, { line: line2 }, line2))
] });
}
function Digest({ value, short = !1 }) {
let groups = value.match(/.{1,4}/g) ?? [];
return a4("code", { class: "digest", title: value, children: short ? `${groups.slice(0, 6).join(" ")}…` : groups.join(" ") });
}

// src/parts/glyph.tsx
var cut = { stroke: "var(--surface)", "stroke-width": 1.5, fill: "none" }, line = { stroke: "currentColor", "stroke-width": 1.4, fill: "none" }, SHAPES = {
ok: a4($, { children: [
a4("circle", { cx: "6", cy: "6", r: "5.4", fill: "currentColor" }),
a4("path", { d: "M3.400 6.200l1.800 1.800 3.400-3.800", ...cut })
] }),
run: a4($, { children: [
a4("circle", { cx: "6", cy: "6", r: "4.900", ...line }),
a4("path", { d: "M4.600 3.600l4 2.400-4 2.400z", fill: "currentColor" })
] }),
wait: a4(
"path",
{
d: "M2.200 1h7.600M2.200 11h7.600M3 1c0 3 3 3.600 3 5S3 8 3 11M9 1c0 3-3 3.600-3 5s3 2 3 5",
...line
}
),
queue: a4("circle", { cx: "6", cy: "6", r: "4.900", ...line }),
park: a4("circle", { cx: "6", cy: "6", r: "4.900", "stroke-dasharray": "2.200 1.700", ...line }),
retry: a4($, { children: [
a4("path", { d: "M10.200 4.200A4.800 4.800 0 1 0 10.800 7", ...line }),
a4("path", { d: "M10.900 1.200v3.600H7.400z", fill: "currentColor" })
] }),
bad: a4($, { children: [
a4("rect", { x: ".8", y: ".8", width: "10.400", height: "10.400", rx: "1.600", fill: "currentColor" }),
a4("path", { d: "M3.700 3.700l4.600 4.600M8.300 3.700L3.700 8.300", ...cut })
] }),
halt: a4($, { children: [
a4("path", { d: "M3.700.6h4.600l3.100 3.100v4.600l-3.100 3.100H3.700L.6 8.300V3.700z", fill: "currentColor" }),
a4("path", { d: "M3.400 6h5.200", ...cut })
] }),
cancel: a4($, { children: [
a4("circle", { cx: "6", cy: "6", r: "4.900", ...line }),
a4("path", { d: "M2.700 9.300l6.600-6.600", ...line })
] }),
skip: a4($, { children: [
a4("circle", { cx: "2", cy: "6", r: "1.300", fill: "currentColor" }),
a4("circle", { cx: "6", cy: "6", r: "1.300", fill: "currentColor" }),
a4("circle", { cx: "10", cy: "6", r: "1.300", fill: "currentColor" })
] }),
refused: a4($, { children: [
a4("path", { d: "M6 .3L11.700 6 6 11.700.3 6z", ...line }),
a4("path", { d: "M4.200 4.200l3.600 3.600M7.800 4.200L4.200 7.800", ...line })
] }),
take: a4($, { children: [
a4("path", { d: "M1 2.500h3.200c2.600 0 1.200 7 3.800 7H10", ...line }),
a4("path", { d: "M8.600 7l3 2.500-3 2.500z", fill: "currentColor" })
] }),
step: a4("path", { d: "M6 1l5 5-5 5-5-5z", fill: "currentColor" })
};
function Glyph({ name, size = 12 }) {
return a4("svg", { class: "glyph", width: size, height: size, viewBox: "0 0 12 12", "aria-hidden": "true", children: SHAPES[name] });
}
function GlyphAt({ name, x: x3, y: y5, size }) {
let scale2 = size / 12;
return a4("g", { transform: `translate(${x3 - size / 2} ${y5 - size / 2}) scale(${scale2})`, children: SHAPES[name] });
}
function Pill({ look: look2, text: text2 }) {
return a4("span", { class: `pill t-${look2.tone}`, children: [
a4(Glyph, { name: look2.glyph, size: 13 }),
text2 ?? look2.word
] });
}
function Mark({ look: look2 }) {
return a4("span", { class: `mark t-${look2.tone}`, children: [
a4(Glyph, { name: look2.glyph }),
look2.word
] });
}

// src/parts/read.tsx
function Read({ query, children }) {
let { data, problem } = query;
return a4($, { children: [
problem.value && a4(Failed, { problem: problem.value, again: query.again }),
data.value === void 0 && !problem.value && a4(Loading, { rows: 6 }),
data.value !== void 0 && children(data.value)
] });
}

// src/parts/frame.tsx
function Crumb({ name, to }) {
return a4("div", { class: "crumb", children: [
a4("a", { href: to, children: name }),
" /"
] });
}
function Head(props) {
return a4("div", { class: "head", children: [
a4("h1", { children: visible(props.title) }),
props.look && a4(Pill, { look: props.look }),
props.note && a4("span", { class: "soft", children: props.note }),
props.children && a4("span", { class: "sp" }),
props.children
] });
}
function Tabs({ tabs, on }) {
let here = place.value.path.join("/");
return a4("nav", { class: "tabs", "aria-label": "Parts", children: tabs.map(([id, title], i4) => a4(
"a",
{
class: on === id ? "on" : "",
"aria-current": on === id ? "page" : void 0,
href: i4 === 0 ? here : `${here}?tab=${id}`,
children: title
},
id
)) });
}
function Chips(props) {
let chosen2 = place.value.query.get(props.name) ?? "", chip = (value, { word, tone, glyph }) => {
let isOn = value === chosen2;
return a4(
"a",
{
class: `chip ${isOn ? "on" : ""}`,
"aria-current": isOn ? "true" : void 0,
href: withQuery({ [props.name]: isOn ? void 0 : value }),
children: [
glyph && a4("span", { class: isOn ? "" : `t-${tone} ink`, children: a4(Glyph, { name: glyph, size: 11 }) }),
word
]
},
value
);
};
return a4("nav", { class: "chips", "aria-label": props.label, children: [
chip("", { word: "all" }),
props.choices.map(([value, look2]) => chip(value, look2)),
props.children
] });
}
function Chosen({ name, value }) {
return a4(
"a",
{
class: "chip on-soft",
href: withQuery({ [name]: void 0 }),
"aria-label": `remove the filter ${name} ${value}`,
children: [
a4("span", { class: "muted", children: name }),
" ",
a4("bdi", { children: visible(value) }),
" ×"
]
}
);
}
function Listing(props) {
return a4(Read, { query: props.query, children: (data) => a4("section", { class: "card", children: props.isEmpty(data) ? props.empty : props.children(data) }) });
}
function Facts({ of }) {
let known = of.filter(([, value]) => value != null && value !== "");
return a4("dl", { class: "facts", children: known.map(([name, value]) => a4("div", { children: [
a4("dt", { children: name }),
a4("dd", { children: value })
] }, name)) });
}
function Foot({ lines }) {
return a4("div", { class: "foot", children: lines.map((line2) => a4(Cli, { line: line2 }, line2)) });
}

// src/parts/table.tsx
var PLACES = /* @__PURE__ */ new Set(["r", "hide-narrow"]), placing = (style = "") => style.split(" ").filter((word) => PLACES.has(word)).join(" ");
function Table(props) {
return a4("table", { class: props.isList ? "list-table" : "", children: [
a4("thead", { children: a4("tr", { children: props.columns.map(([head, , style]) => a4("th", { class: placing(style), children: head }, head)) }) }),
a4("tbody", { children: props.items.map((item) => a4("tr", { children: props.columns.map(([head, cell, style]) => a4("td", { class: style, children: cell(item) }, head)) }, props.by(item))) })
] });
}

// src/data/pages.ts
async function readPages(most, read5) {
let items = [], cursor;
do {
let [page, next2] = await read5(cursor);
items.push(...page), cursor = next2 ?? void 0;
} while (cursor !== void 0 && items.length < most);
return { items, isCut: cursor !== void 0 };
}

// src/people.ts
var names = y3(/* @__PURE__ */ new Map()), KEYS_MAX = 1e3;
async function discoverNames() {
names.value = /* @__PURE__ */ new Map();
let { items } = await readPages(KEYS_MAX, async (after) => {
let page = await get("v1/keys", { query: { limit: 200, after } }).catch(() => {
});
return [page?.keys ?? [], page?.nextAfter];
});
names.value = new Map(items.flatMap(({ keyId, name }) => name ? [[keyId, name]] : []));
}
var nameOf = (keyId) => names.value.get(keyId) ?? keyId.slice(0, 8);

// src/pages/audit.tsx
var PAGE = 200, CHANGES = { tone: "ok", glyph: "step", word: "changes" }, REFUSED = { tone: "refused", glyph: "refused", word: "refused calls" }, CHOICES = [
["changes", CHANGES],
["refused-calls", REFUSED]
], isRefusal = ({ action }) => action === "refused";
function chosen(entries, what) {
return what === "refused-calls" ? entries.filter(isRefusal) : what === "changes" ? entries.filter((entry) => !isRefusal(entry)) : entries;
}
function AuditPage() {
document.title = "Audit · Tenure";
let asked2 = place.value.query, what = asked2.get("what") ?? "", before = asked2.get("before") ?? void 0, query = useQuery(
`audit ${before ?? ""}`,
"operate",
(signal) => get("v1/audit", { query: { limit: PAGE, before }, signal })
);
return a4($, { children: [
a4(Head, { title: "Audit", note: "administrative changes and refused calls, the newest first" }),
a4(Verify, {}),
a4(Chips, { label: "What", name: "what", choices: CHOICES }),
a4(
Listing,
{
query,
isEmpty: ({ entries }) => entries.length === 0,
empty: a4(Empty, { title: before ? "No entry is older" : "Nothing was changed or refused yet", children: "Keys, limits, budgets, pauses and topologies are changed by people: each change is an entry, and so is each call that a key was not allowed to make." }),
children: (log) => a4(Entries, { log, what, isNewest: before === void 0 })
}
),
a4(Foot, { lines: [command("audit", ...before ? ["--before", before] : []), "tenure audit verify"] })
] });
}
function Entries({ log, what, isNewest }) {
let shown = chosen(log.entries, what), [last] = log.entries.slice(-1);
return a4($, { children: [
shown.length > 0 && a4(Table, { isList: !0, items: shown, by: ({ n: n3 }) => n3, columns: COLUMNS }),
a4("div", { class: "bound muted", children: [
what !== "" && `${shown.length} of the `,
log.entries.length,
" entries back to ",
a4(Time, { at: last?.at }),
!isNewest && a4($, { children: [
" · ",
a4("a", { href: withQuery({ before: void 0 }), children: "the newest" })
] }),
log.nextBefore != null && a4($, { children: [
" · ",
a4("a", { href: withQuery({ before: String(log.nextBefore) }), children: "older ones" })
] })
] })
] });
}
var COLUMNS = [
["when", ({ at }) => a4(Time, { at }), "nowrap"],
[
"what",
(entry) => isRefusal(entry) ? a4(Mark, { look: { ...REFUSED, word: entry.times > 1 ? `refused ${entry.times} times` : "refused" } }) : a4("b", { class: "strong", children: visible(entry.action) }),
"nowrap"
],
[
"about",
({ object, error: error2, actor }) => a4($, { children: [
a4("code", { children: visible(object === "*" ? "all workspaces" : object) }),
error2 && a4("span", { class: "muted", children: [
" ",
visible(error2)
] }),
a4("span", { class: "show-narrow", children: [
"by ",
a4(Actor, { id: actor })
] })
] }),
"wide-cell"
],
["by", ({ actor }) => a4(Actor, { id: actor }), "nowrap hide-narrow"],
[
"scope",
({ tenantId, workspaceId }) => visible(`${tenantId} / ${workspaceId === "*" ? "all" : workspaceId}`),
"hide-narrow"
],
["request", ({ requestId }) => requestId && a4("code", { class: "soft", children: requestId }), "nowrap hide-narrow"],
["no.", ({ n: n3 }) => n3, "num r hide-narrow"]
];
function Actor({ id }) {
return id === "server" || id === "anonymous" ? a4("span", { class: "muted", children: id }) : a4("span", { title: `the key ${id}`, children: visible(nameOf(id)) });
}
function verdict(found) {
let [first] = found.findings;
if (first) return `The audit was changed: ${first.message} (entry ${first.n}).`;
let old = found.entries - found.sealed, parts = [
found.entries === 1 ? "Its one entry is" : `All ${found.entries} entries are`,
"as they were written",
old > 0 ? `; ${old} of them are older than the seals` : "",
found.anchored ? ", and none is missing at the end." : ". The end was not compared with an anchor outside of the store, so missing entries at the end would not be noticed."
];
return `${parts[0]} ${parts[1]}${parts[2]}${parts[3]}`;
}
function Verify() {
let found = useSignal(void 0), problem = useSignal(void 0), isBusy = useSignal(!1), check = async () => {
isBusy.value = !0, problem.value = void 0;
try {
found.value = await get("v1/audit/verify");
} catch (error2) {
problem.value = asProblem(error2);
} finally {
isBusy.value = !1;
}
}, isBad = (found.value?.findings.length ?? 0) > 0;
return a4("div", { class: "verify", children: [
a4("button", { type: "button", class: "btn", disabled: isBusy.value, onClick: check, children: isBusy.value ? "Checking…" : "Check the seals" }),
a4("span", { role: "status", class: found.value && `t-${isBad ? "bad" : "ok"} ink`, children: found.value ? a4($, { children: [
a4(Glyph, { name: isBad ? "bad" : "ok" }),
" ",
visible(verdict(found.value))
] }) : a4("span", { class: "muted", children: "whether an entry was changed, removed, added or moved since it was written" }) }),
problem.value && a4(Failed, { problem: problem.value, again: check })
] });
}

// src/model/state.ts
var look = (tone, word, glyph = tone) => ({ tone, glyph, word }), STATES = {
queued: look("queue", "queued"),
running: look("run", "running"),
retry: look("retry", "retry"),
waiting: look("wait", "waiting"),
succeeded: look("ok", "succeeded"),
failed: look("bad", "failed"),
halted: look("halt", "halted"),
cancelled: look("queue", "cancelled", "cancel"),
blocked: look("queue", "blocked", "park"),
skipped: look("queue", "skipped", "skip")
}, STATE_NAMES = Object.keys(STATES);
function stateLook(state) {
return STATES[state] ?? look("queue", state);
}
function isEnded(state) {
return ["succeeded", "failed", "halted", "cancelled", "skipped"].includes(state);
}
var OUTCOMES = {
SUCCEEDED: look("ok", "succeeded"),
FAILED: look("bad", "failed"),
CANCELLED: look("queue", "cancelled", "cancel"),
LOST: look("retry", "lost: lease expired"),
UNDELIVERED: look("retry", "never started"),
REVOKED: look("halt", "revoked"),
RELEASED: look("queue", "given back"),
SUSPENDED: look("wait", "suspended"),
DIVERGED: look("halt", "diverged")
};
function outcomeLook(outcome) {
return outcome === void 0 ? look("run", "running") : OUTCOMES[outcome] ?? look("queue", outcome.toLowerCase());
}
var EFFECTS = {
queued: look("queue", "queued"),
pending: look("run", "pending"),
in_flight: look("run", "in flight"),
delivered: look("ok", "delivered"),
unknown: look("halt", "unknown"),
dead: look("bad", "dead")
};
function effectLook(state) {
return EFFECTS[state] ?? look("queue", state);
}
function fence(value) {
return `${Math.floor(value / 2 ** 32)}.${value % 2 ** 32}`;
}

// src/parts/payload.tsx
var LINE_PX = 20, HEIGHT_PX = 460, STRING_MAX = 2e3, SPARE = 10;
function PayloadView({ text: text2, label }) {
let top = useSignal(0), lines = useComputed(() => jsonLines(text2)), all = jsonLinesOf(lines.value, text2), height = Math.min(HEIGHT_PX, all.length * LINE_PX), first = Math.max(0, Math.floor(top.value / LINE_PX) - SPARE), last = Math.min(all.length, first + Math.ceil(HEIGHT_PX / LINE_PX) + 2 * SPARE);
return a4("div", { class: "payload", children: [
a4("div", { class: "bar", children: [
a4("span", { class: "muted", children: [
all.length === 1 ? "1 line" : `${all.length} lines`,
", ",
bytes(text2)
] }),
a4("span", { class: "sp" }),
a4(Copy, { text: text2 }),
a4("button", { type: "button", class: "copy", onClick: () => download(text2, label), children: "download" })
] }),
a4(
"section",
{
class: "lines",
"aria-label": label,
tabIndex: 0,
style: { height: `${height}px` },
onScroll: (event) => {
top.value = event.currentTarget.scrollTop;
},
children: a4("div", { style: { height: `${all.length * LINE_PX}px` }, children: a4("div", { style: { transform: `translateY(${first * LINE_PX}px)` }, children: all.slice(first, last).map((line2, i4) => a4(LineView, { line: line2, n: first + i4 + 1 }, first + i4)) }) })
}
)
] });
}
var jsonLinesOf = (lines, text2) => lines.length > 0 ? lines : [{ indent: 0, tokens: [{ kind: "word", text: text2 === "" ? "empty" : text2 }] }];
function LineView({ line: line2, n: n3 }) {
return a4("div", { class: "line", children: [
a4("i", { class: "num", children: n3 }),
a4("span", { style: { paddingLeft: `${line2.indent * 16}px` }, children: line2.tokens.map((token, i4) => a4(Piece, { kind: token.kind, text: token.text }, i4)) })
] });
}
function Piece({ kind, text: text2 }) {
let isWhole = useSignal(!1), isCut = text2.length > STRING_MAX && !isWhole.value;
return a4($, { children: [
a4("bdi", { class: `j-${kind}`, children: visible(isCut ? text2.slice(0, STRING_MAX) : text2) }),
isCut && a4(
"button",
{
type: "button",
class: "link",
onClick: () => {
isWhole.value = !0;
},
children: [
"… ",
text2.length - STRING_MAX,
" more characters"
]
}
)
] });
}
function bytes(text2) {
let n3 = new TextEncoder().encode(text2).length;
return n3 < 2048 ? `${n3} bytes` : `${(n3 / 1024).toFixed(1)} KiB`;
}
function download(text2, label) {
let url = URL.createObjectURL(new Blob([text2], { type: "application/octet-stream" })), link = document.createElement("a");
link.href = url, link.download = `${label.replaceAll(/[^a-z0-9]+/gi, "-")}.json`, link.target = "_self", link.click(), URL.revokeObjectURL(url);
}

// src/pages/effects.tsx
var STATES2 = ["dead", "unknown", "queued", "pending", "in_flight", "delivered"], PAGE2 = 100;
function EffectsPage({ id }) {
if (document.title = "Effects · Tenure", id) return a4(EffectPage, { id });
let isEndpoints = place.value.query.get("tab") === "endpoints";
return a4($, { children: [
a4(Head, { title: "Effects", note: "what other systems are told" }),
a4(
Tabs,
{
tabs: [
["effects", "Effects"],
["endpoints", "Endpoints"]
],
on: isEndpoints ? "endpoints" : "effects"
}
),
isEndpoints ? a4(EndpointsTab, {}) : a4(EffectsTab, {})
] });
}
function EffectsTab() {
let asked2 = place.value.query, state = asked2.get("state") ?? "", endpoint = asked2.get("endpoint") ?? "", query = useQuery(
`effects ${state} ${endpoint}`,
"queues",
(signal) => get("v1/effects", { query: { state, endpoint, limit: PAGE2 }, signal })
), filters = [...endpoint ? ["--endpoint", endpoint] : [], ...state ? ["--state", state] : []];
return a4($, { children: [
a4(Chips, { label: "State", name: "state", choices: STATES2.map((name) => [name, effectLook(name)]), children: endpoint && a4(Chosen, { name: "endpoint", value: endpoint }) }),
a4(
Listing,
{
query,
isEmpty: (list) => list.effects.length === 0,
empty: a4(
Empty,
{
title: state || endpoint ? "No effect matches" : "Nothing was decided for other systems",
lines: ["tenure endpoints create crm https://crm.example.org/hooks"],
children: "An effect is recorded in the commit that decided it, and delivered afterwards, in order, until the receiver has it. Register an endpoint, and it is told of the ends of runs."
}
),
children: ({ effects, cursor }) => a4($, { children: [
a4(Table, { isList: !0, items: effects, by: (effect) => effect.effectId, columns: COLUMNS2 }),
cursor && a4("div", { class: "bound muted", children: [
"the newest ",
effects.length,
"; filter to see others"
] })
] })
}
),
a4(Foot, { lines: [command("effects", ...filters)] })
] });
}
var COLUMNS2 = [
["state", (effect) => a4(Mark, { look: effectLook(effect.state) }), "nowrap"],
[
"type",
(effect) => a4("a", { "data-row": !0, href: `effects/${effect.effectId}`, children: visible(effect.type) }),
"strong"
],
["endpoint", (effect) => a4("a", { href: withQuery({ endpoint: effect.endpoint }), children: visible(effect.endpoint) })],
["tries", (effect) => effect.tries, "num r hide-narrow"],
["decided", (effect) => a4(Time, { at: effect.decidedAt }), "nowrap hide-narrow"],
["next", (effect) => next(effect), "nowrap hide-narrow"],
["last answer", (effect) => answer(effect), "wide-cell hide-narrow"]
];
function next(effect) {
return effect.state === "dead" || effect.state === "unknown" ? a4("b", { class: "t-bad ink", children: effect.blocks ? "a person; its aggregate waits" : "a person" }) : effect.state === "queued" ? "behind an earlier one" : effect.dueAt ? a4(Time, { at: effect.dueAt }) : "";
}
var answer = ({ lastTry }) => visible([lastTry?.status, lastTry?.note].filter(Boolean).join(" "));
function fate(effect) {
let tries = effect.tries === 1 ? "1 try" : `${effect.tries} tries`;
switch (effect.state) {
case "delivered":
return `Delivered after ${tries}.`;
case "dead":
return `Dead after ${tries}: ${effect.reason ?? "given up"}. ${effect.blocks ? "What follows it in its aggregate waits for it: give it new tries, or let the others go on." : "Nothing waits for it. It can be given new tries."}`;
case "unknown":
return "It was sent, and no answer came. Ask the receiver whether it has it, and say so.";
case "queued":
return "It waits for an earlier effect of its aggregate: they are delivered in order.";
default:
return effect.tries === 0 ? "It is about to be sent." : `${tries} failed. It is tried again until the receiver has it.`;
}
}
function remedies(effect) {
let id = effect.effectId;
return effect.state === "dead" ? [command("effects", "redrive", id), ...effect.blocks ? [command("effects", "release", id)] : []] : effect.state === "unknown" ? [
command("effects", "reconcile", id, "--arrived"),
command("effects", "reconcile", id, "--not-arrived")
] : [];
}
function EffectPage({ id }) {
let query = useQuery(`effect ${id}`, "queues", (signal) => get(`v1/effects/${id}`, { signal }));
return a4($, { children: [
a4(Crumb, { name: "Effects", to: "effects" }),
a4(Read, { query, children: (effect) => a4(Shown, { effect }) })
] });
}
function Shown({ effect }) {
let look2 = effectLook(effect.state);
return a4($, { children: [
a4(Head, { title: effect.type, look: look2, note: a4("code", { children: effect.effectId }) }),
a4(
Facts,
{
of: [
[
"to",
a4("a", { href: `effects?endpoint=${encodeURIComponent(effect.endpoint)}`, children: visible(effect.endpoint) })
],
["of", a4("a", { href: `runs/${effect.runId}`, children: effect.runId })],
[
"place",
a4($, { children: [
effect.sequence,
" of ",
a4("bdi", { children: visible(effect.aggregate) })
] })
],
["decided", a4(Time, { at: effect.decidedAt })],
["settled", effect.settledAt && a4(Time, { at: effect.settledAt })]
]
}
),
a4("p", { class: `story t-${look2.tone}`, children: fate(effect) }),
remedies(effect).map((line2) => a4(Cli, { line: line2 }, line2)),
a4(Card, { title: "What happened", note: "oldest first", children: a4(Table, { items: effect.log ?? [], by: (change) => `${change.at} ${change.state}`, columns: CHANGES2 }) }),
effect.body !== void 0 && effect.body !== null && a4(Card, { title: "What is sent", note: "the same bytes with every try", children: a4(PayloadView, { text: effect.body, label: "what is sent" }) }),
a4(Foot, { lines: [command("effects", "show", effect.effectId)] })
] });
}
var CHANGES2 = [
["when", (change) => a4(Time, { at: change.at }), "nowrap"],
["state", (change) => a4(Mark, { look: effectLook(change.state) }), "nowrap"],
["tries", (change) => change.tries, "num r"],
["answer", (change) => change.state !== "in_flight" && answer(change), "wide-cell"],
["by", (change) => change.keyId ? visible(nameOf(change.keyId)) : ""]
];
function EndpointsTab() {
let query = useQuery("endpoints", "queues", (signal) => get("v1/endpoints", { signal }));
return a4($, { children: [
a4(
Listing,
{
query,
isEmpty: ({ endpoints }) => endpoints.length === 0,
empty: a4(
Empty,
{
title: "No endpoint is registered",
lines: ["tenure endpoints create crm https://crm.example.org/hooks"],
children: "An endpoint is told what was decided: by default the ends of runs."
}
),
children: ({ endpoints }) => a4(Table, { isList: !0, items: endpoints, by: (endpoint) => endpoint.name, columns: ENDPOINTS })
}
),
a4(Foot, { lines: ["tenure endpoints"] })
] });
}
var ENDPOINTS = [
[
"endpoint",
({ name }) => a4("a", { "data-row": !0, href: `effects?endpoint=${encodeURIComponent(name)}`, children: visible(name) }),
"strong"
],
["state", ({ state, disabledBecause }) => state + (disabledBecause ? `: ${visible(disabledBecause)}` : "")],
["address", ({ url }) => a4("code", { children: visible(url) }), "wide-cell hide-narrow"],
["told of", ({ types }) => visible(types.join(", ")) || "what workers declare", "wide-cell hide-narrow"],
["tries", ({ maxTries }) => maxTries, "num r hide-narrow"],
["pause between tries", pauses, "nowrap hide-narrow"]
];
function pauses({ retry }) {
let [least, most] = [span(retry.baseMs), span(retry.capMs)];
return least === most ? least : `${least} to ${most}`;
}

// src/model/metrics.ts
var LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/, LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;
function parseMetrics(text2) {
let found = /* @__PURE__ */ new Map();
for (let line2 of text2.split(`
`)) {
let [, name, labels = "", value] = line2.match(LINE) ?? [];
if (name === void 0 || value === void 0) continue;
let sample = {
labels: Object.fromEntries([...labels.matchAll(LABEL)].map(([, key2, text3]) => [key2, text3])),
value: Number(value.replace(/^\+?Inf$/, "Infinity"))
}, samples = found.get(name);
samples ? samples.push(sample) : found.set(name, [sample]);
}
return found;
}
function sum(metrics, name) {
return metrics.get(name)?.reduce((whole, { value }) => whole + value, 0);
}
function quantile(metrics, name, share) {
let buckets2 = (metrics.get(`${name}_bucket`) ?? []).map(({ labels, value }) => ({ upTo: labels.le === "+Inf" ? 1 / 0 : Number(labels.le), value })).sort((a5, b3) => a5.upTo - b3.upTo), count2 = buckets2.at(-1)?.value ?? 0;
if (count2 !== 0)
return buckets2.find(({ value }) => value >= share * count2)?.upTo;
}

// src/pages/health.tsx
var SOUND = { tone: "ok", glyph: "ok", word: "ready" }, UNSOUND = { tone: "bad", glyph: "bad", word: "not ready" };
async function read(signal) {
let started = performance.now(), ready = await get("readyz", { alsoAnswer: 503, signal }), tookMs = performance.now() - started, [version, workers] = await Promise.all([
get("version", { signal }),
mayRead("runs") ? get("v1/workers", { query: { limit: 1 }, signal }) : void 0
]);
return { ready, version, coordinators: workers?.coordinators, tookMs };
}
function HealthPage() {
document.title = "Health · Tenure";
let query = useQuery("health", "operate", read), ready = query.data.value?.ready;
return a4($, { children: [
a4(
Head,
{
title: "Health",
look: ready && (ready.ready ? SOUND : UNSOUND),
note: "whether the machine is sound"
}
),
a4(Read, { query, children: (state) => a4(Checks, { state }) }),
mayRead("audit") && a4(SetAsideCards, {}),
a4(Figures, {}),
a4(Foot, { lines: ["tenure doctor", "tenure coordinators"] })
] });
}
var ABOUT = {
progress: "the coordinator commits what it is asked",
certificate: "the certificate on disk is the one that is served"
}, CHECKS = [
["check", ({ name }) => visible(name), "strong"],
["state", ({ ok }) => a4(Mark, { look: ok ? { ...SOUND, word: "well" } : { ...UNSOUND, word: "not well" } })],
["what it says", ({ name, detail }) => visible(detail ?? ABOUT[name] ?? ""), "wide-cell"]
];
function Checks({ state }) {
let skew = clockOffset();
return a4($, { children: [
a4(
Facts,
{
of: [
["version", state.version.version],
["API", state.version.api],
["coordinators", state.coordinators],
["answered in", span(state.tookMs)],
[
"your clock",
Math.abs(skew) < 1e3 ? "agrees" : `is ${roughly(Math.abs(skew))} ${skew > 0 ? "behind" : "ahead"}`
]
]
}
),
a4(Card, { title: "Checks", note: "of the coordinator that answered", children: a4(Table, { items: state.ready.checks, by: ({ name }) => name, columns: CHECKS }) })
] });
}
var Run = ({ id }) => a4("a", { href: `runs/${runIdOf(id)}`, children: id }), ASIDE = [
["task", ({ taskId }) => a4(Run, { id: taskId }), "wide-cell"],
["why", ({ why: why2 }) => visible(why2), "wide-cell"],
["since", ({ since }) => a4(Time, { at: since }), "nowrap"],
["tries", ({ tries }) => tries, "num r"],
["tried again", ({ retryAfterMs }) => retryAfterMs ? `in ${roughly(retryAfterMs)}` : "now", "nowrap"]
], PARKED = [
["from", ({ fromTaskId }) => a4(Run, { id: fromTaskId }), "wide-cell"],
["to", ({ toTaskId }) => a4(Run, { id: toTaskId }), "wide-cell"],
["refused with", ({ why: why2 }) => a4("code", { children: visible(why2) })]
];
function SetAsideCards() {
let query = useQuery("set-aside", "operate", (signal) => get("v1/set-aside", { signal }));
return a4(Read, { query, children: ({ tasks, messages = [] }) => a4($, { children: [
a4(
Card,
{
title: "Set aside",
note: "tasks that cannot be read, decided or stored, and are skipped for now",
children: tasks.length === 0 ? a4("p", { class: "pad-x", children: "None. Every task is processed." }) : a4(Table, { items: tasks, by: ({ taskId }) => taskId, columns: ASIDE })
}
),
messages.length > 0 && a4(
Card,
{
title: "Messages that wait",
note: "the rules refuse them; they hold up later ones of the same pair",
children: a4(
Table,
{
items: messages,
by: ({ fromTaskId, toTaskId }) => `${fromTaskId} ${toTaskId}`,
columns: PARKED
}
)
}
)
] }) });
}
function figures(metrics, at) {
let started = sum(metrics, "tenure_start_time_seconds"), count2 = (name) => sum(metrics, name)?.toLocaleString("en"), seconds2 = (value) => value === void 0 ? void 0 : value === 1 / 0 ? "beyond the scale" : `at most ${span(value * 1e3)}`, promises = (metrics.get("tenure_store_promise") ?? []).map(
({ labels, value }) => `${(labels.promise ?? "").replaceAll("_", " ")} ${value === 1 ? "kept" : "not kept"}`
);
return [
["started", started === void 0 ? void 0 : `${roughly(at - started * 1e3)} ago`],
["a commit takes, half of them", seconds2(quantile(metrics, "tenure_commit_seconds", 0.5))],
["a commit takes, 99 of 100", seconds2(quantile(metrics, "tenure_commit_seconds", 0.99))],
["batches that the store refused", count2("tenure_store_failures_total")],
["what the store promises", promises.join(", ") || void 0],
["open connections", count2("tenure_connections")],
["connections turned away", count2("tenure_connections_turned_away_total")],
["polls that wait for work", count2("tenure_polls_waiting")],
["leases that expired", count2("tenure_leases_expired_total")],
["calls refused by a limit", count2("tenure_limited_total")]
].filter((figure) => figure[1] !== void 0);
}
function Figures() {
let query = useQuery(
"metrics",
void 0,
async (signal) => parseMetrics(await getText("metrics", { signal }))
), problem = query.problem.value;
return a4(
Card,
{
title: "Figures",
note: "of the coordinator that answered, since it started",
aside: a4("button", { type: "button", class: "link", onClick: () => {
query.again();
}, children: "read again" }),
children: [
problem && a4(NoFigures, { problem }),
query.data.value && a4("dl", { class: "kv figures-list", children: figures(query.data.value, now()).map(([name, value]) => a4("div", { children: [
a4("dt", { children: name }),
a4("dd", { class: "num", children: value })
] }, name)) })
]
}
);
}
function NoFigures({ problem }) {
return problem.status !== 403 && problem.status !== 404 ? a4(Failed, { problem }) : a4(Empty, { title: "This key may not read the figures", children: visible(problem.message) });
}

// src/model/sha256.ts
var K2 = new Uint32Array(64), START = new Uint32Array(8);
(function() {
let found = 0;
for (let n3 = 2; found < 64; n3++) {
let isPrime = !0;
for (let d4 = 2; d4 * d4 <= n3; d4++) n3 % d4 === 0 && (isPrime = !1);
if (!isPrime) continue;
let fraction = (x3) => Math.floor((x3 - Math.floor(x3)) * 2 ** 32);
found < 8 && (START[found] = fraction(Math.sqrt(n3))), K2[found++] = fraction(Math.cbrt(n3));
}
})();
var rotate = (x3, by) => x3 >>> by | x3 << 32 - by;
function block(hash, view, offset2, w5) {
for (let i4 = 0; i4 < 16; i4++) w5[i4] = view.getUint32(offset2 + 4 * i4);
for (let i4 = 16; i4 < 64; i4++) {
let a6 = w5[i4 - 15], b4 = w5[i4 - 2], s0 = rotate(a6, 7) ^ rotate(a6, 18) ^ a6 >>> 3, s1 = rotate(b4, 17) ^ rotate(b4, 19) ^ b4 >>> 10;
w5[i4] = w5[i4 - 16] + s0 + w5[i4 - 7] + s1;
}
let [a5, b3, c4, d4, e4, f5, g5, h5] = hash;
for (let i4 = 0; i4 < 64; i4++) {
let s1 = rotate(e4, 6) ^ rotate(e4, 11) ^ rotate(e4, 25), t1 = h5 + s1 + (e4 & f5 ^ ~e4 & g5) + K2[i4] + w5[i4] | 0, t22 = (rotate(a5, 2) ^ rotate(a5, 13) ^ rotate(a5, 22)) + (a5 & b3 ^ a5 & c4 ^ b3 & c4) | 0;
[h5, g5, f5, e4, d4, c4, b3, a5] = [g5, f5, e4, d4 + t1 | 0, c4, b3, a5, t1 + t22 | 0];
}
[a5, b3, c4, d4, e4, f5, g5, h5].forEach((x3, i4) => {
hash[i4] = hash[i4] + x3;
});
}
function sha256(bytes2) {
let padded = new Uint8Array((bytes2.length + 8 >> 6) * 64 + 64);
padded.set(bytes2), padded[bytes2.length] = 128;
let view = new DataView(padded.buffer);
view.setUint32(padded.length - 8, Math.floor(bytes2.length / 2 ** 29)), view.setUint32(padded.length - 4, bytes2.length << 3);
let hash = START.slice(), w5 = new Uint32Array(64);
for (let offset2 = 0; offset2 < padded.length; offset2 += 64) block(hash, view, offset2, w5);
return Array.from(hash, (x3) => x3.toString(16).padStart(8, "0")).join("");
}

// src/model/digest.ts
var encoder = new TextEncoder();
function payloadDigest(payload) {
let text2 = encoder.encode(payload), field = new Uint8Array(8 + text2.length);
return new DataView(field.buffer).setUint32(4, text2.length), field.set(text2, 8), sha256(field);
}
function contentDigest(content) {
return sha256(encoder.encode(content));
}
function canonical(text2) {
return new Reader(text2).value();
}
var Reader = class {
constructor(text2) {
this.text = text2;
}
text;
at = 0;
value() {
this.space();
let c4 = this.text[this.at];
return c4 === "{" ? this.object() : c4 === "[" ? this.array() : c4 === '"' ? this.string() : scalar(this.word());
}
object() {
let members = [];
for (this.at++, this.space(); this.text[this.at] !== "}"; this.comma()) {
let name = this.string();
if (this.space(), this.at++, members.push([name, this.value()]), this.at >= this.text.length) throw new SyntaxError("an object does not end");
}
return this.at++, members.sort(([a5], [b3]) => byUnits(JSON.parse(a5), JSON.parse(b3))), `{${members.map(([name, value]) => `${name}:${value}`).join(",")}}`;
}
array() {
let items = [];
for (this.at++, this.space(); this.text[this.at] !== "]"; this.comma())
if (items.push(this.value()), this.at >= this.text.length) throw new SyntaxError("an array does not end");
return this.at++, `[${items.join(",")}]`;
}
string() {
let end2 = stringEnd(this.text, this.at), written = this.text.slice(this.at, end2);
return this.at = end2, JSON.stringify(JSON.parse(written));
}
word() {
let from = this.at;
for (; this.at < this.text.length && !` 	\r
,}]`.includes(this.text[this.at]); ) this.at++;
return this.text.slice(from, this.at);
}
comma() {
this.space(), this.text[this.at] === "," && this.at++, this.space();
}
space() {
for (; this.at < this.text.length && ` 	\r
`.includes(this.text[this.at]); ) this.at++;
}
};
function byUnits(a5, b3) {
return a5 < b3 ? -1 : a5 > b3 ? 1 : 0;
}
function scalar(word) {
return /^-?\d+$/.test(word) ? word === "-0" ? "0" : word : /^-?\d/.test(word) ? String(Number(word)) : word;
}

// src/model/content.ts
function contentOf(approval2, run, steps) {
if (approval2.content) return { text: approval2.content };
if (!approval2.digest) return;
let candidates = [
["the input of the run", run?.input],
...steps.map((step) => [
`the result of its step ${step.key.replace(/#1$/, "")}`,
step.result
])
];
for (let [of, payload] of candidates) {
if (payload === void 0) continue;
let text2 = canonical(payload);
if (contentDigest(text2) === approval2.digest) return { text: text2, of };
}
}

// src/parts/dialog.tsx
function Dialog(props) {
let element = T2(null), key2 = T2(`console-${randomId()}`), problem = useSignal(void 0), isBusy = useSignal(!1);
A2(() => {
element.current?.showModal();
}, []);
let submit = async (event) => {
if (event.preventDefault(), !isBusy.value) {
isBusy.value = !0, problem.value = void 0;
try {
await props.run(key2.current), props.close();
} catch (error2) {
problem.value = asProblem(error2);
} finally {
isBusy.value = !1;
}
}
};
return a4("dialog", { ref: element, onClose: props.close, "aria-labelledby": "dialog-title", children: a4("form", { onSubmit: submit, children: [
a4("h2", { id: "dialog-title", children: props.title }),
props.children,
props.line && a4(Cli, { line: props.line }),
problem.value && a4(Failed, { problem: problem.value, deed: "do" }),
a4("footer", { children: [
a4("button", { type: "button", class: "btn", onClick: () => element.current?.close(), children: "Back" }),
a4(
"button",
{
type: "submit",
class: `btn ${props.isDanger ? "danger solid" : "primary"}`,
disabled: isBusy.value || props.isReady === !1,
children: isBusy.value ? "…" : props.act
}
)
] })
] }) });
}
function randomId() {
return Array.from(
crypto.getRandomValues(new Uint8Array(12)),
(byte) => byte.toString(16).padStart(2, "0")
).join("");
}

// src/pages/inbox.tsx
function InboxPage({ item }) {
let which = place.value.query.get("show") === "closed" ? "closed" : "pending", query = useQuery(
`inbox ${which}`,
"inbox",
(signal) => get("v1/approvals", { query: { state: which, limit: 100 }, signal })
), list = query.data.value?.approvals ?? [], chosen2 = item ?? list[0]?.approvalId;
return document.title = "Inbox · Tenure", a4($, { children: [
a4("div", { class: `head ${item ? "hide-narrow" : ""}`, children: [
a4("h1", { children: "Inbox" }),
a4("span", { class: "soft", children: "what waits for a person" })
] }),
a4("nav", { class: `chips ${item ? "hide-narrow" : ""}`, "aria-label": "Which", children: [
a4(
"a",
{
class: `chip ${which === "pending" ? "on" : ""}`,
"aria-current": which === "pending" ? "true" : void 0,
href: "inbox",
children: [
"Open",
which === "pending" && query.data.value ? ` ${list.length}` : ""
]
}
),
a4(
"a",
{
class: `chip ${which === "closed" ? "on" : ""}`,
"aria-current": which === "closed" ? "true" : void 0,
href: "inbox?show=closed",
children: "Decided"
}
)
] }),
query.problem.value && a4(Failed, { problem: query.problem.value, again: query.again }),
!query.data.value && !query.problem.value && a4(Loading, { rows: 5 }),
query.data.value && list.length === 0 && !item && a4(Nothing, { which }),
(list.length > 0 || item) && a4("div", { class: `split ${item ? "with-item" : ""}`, children: [
a4("section", { class: `card list ${item ? "hide-narrow" : ""}`, "aria-label": "Approvals", children: list.map((approval2) => a4(Item, { approval: approval2, isOn: approval2.approvalId === chosen2 }, approval2.approvalId)) }),
chosen2 && a4(ApprovalCard, { id: chosen2, changed: query.again }, chosen2)
] })
] });
}
function Nothing({ which }) {
return a4("section", { class: "card", children: a4(
Empty,
{
title: which === "pending" ? "Nothing waits for a person" : "Nothing has been decided yet",
lines: which === "pending" ? ["tenure tour approval"] : [],
children: "A run that needs a decision asks for it here, with what is to be decided. It waits without a worker and without a process."
}
) });
}
function Item({ approval: approval2, isOn }) {
let look2 = approvalLook(approval2), query = place.value.query.toString();
return a4(
"a",
{
class: `item ${isOn ? "on" : ""}`,
"data-row": !0,
"aria-current": isOn ? "true" : void 0,
href: `inbox/${approval2.approvalId}${query ? `?${query}` : ""}`,
children: [
a4("span", { class: `t-${look2.tone} ink`, children: a4(Glyph, { name: look2.glyph, size: 14 }) }),
a4("b", { children: visible(approval2.subject ?? approval2.key) }),
a4("span", { class: "muted nowrap", children: roughly(clock.value - ms(approval2.openedAt)) }),
a4("span", { class: "under muted", children: [
approved(approval2),
" of ",
approval2.quorum,
" approved",
approval2.state === "pending" && approval2.expiresAt ? `, expires ${relative(ms(approval2.expiresAt), clock.value)}` : "",
approval2.outcome ? `, ${approval2.outcome}` : ""
] })
]
}
);
}
var approved = (approval2) => approval2.votes.filter((vote) => vote.decision === "APPROVED").length;
function approvalLook(approval2) {
if (approval2.state === "pending") {
let missing = approval2.quorum - approved(approval2);
return {
tone: "wait",
glyph: "wait",
word: `waits for ${missing} ${approved(approval2) > 0 ? "more " : ""}${missing === 1 ? "person" : "people"}`
};
}
return approval2.outcome === "APPROVED" ? { ...stateLook("succeeded"), word: "approved" } : approval2.outcome === "REJECTED" ? { ...stateLook("failed"), word: "rejected" } : { tone: "queue", glyph: "cancel", word: (approval2.outcome ?? "closed").toLowerCase() };
}
async function readAsked(id, known, signal) {
let approval2 = await get(`v1/approvals/${id}`, { signal });
if (known && (known.content !== void 0 || !approval2.digest)) return { ...known, approval: approval2 };
let optional = (reading) => reading.catch(() => {
}), run = mayRead("runs") ? await optional(get(`v1/runs/${runIdOf(approval2.taskId)}`, { signal })) : void 0, steps = run?.durable && !approval2.content ? await optional(
get(`v1/runs/${runIdOf(approval2.taskId)}/steps`, { query: { limit: 200 }, signal })
) : void 0;
return { approval: approval2, content: contentOf(approval2, run, steps?.steps ?? []), kind: run?.kind };
}
function ApprovalCard({ id, changed }) {
let known = useSignal(void 0), query = useQuery(`approval ${id}`, "inbox", async (signal) => (known.value = await readAsked(id, known.value, signal), known.value)), { approval: approval2, content, kind } = query.data.value ?? {};
if (!approval2)
return a4("section", { class: "card pad", children: query.problem.value ? a4(Failed, { problem: query.problem.value, again: query.again }) : a4(Loading, { rows: 8 }) });
let look2 = approvalLook(approval2), both = async () => {
await Promise.all([query.again(), changed()]);
};
return a4("section", { class: "card pad approval", "aria-label": "Approval", children: [
a4("a", { class: "back", href: "inbox", children: "‹ Inbox" }),
a4("div", { class: "lead", children: [
a4(Pill, { look: look2 }),
a4("span", { class: "muted", children: [
"asked ",
a4(Time, { at: approval2.openedAt }),
" by",
" ",
mayRead("runs") ? a4("a", { href: `runs/${approval2.runId}`, children: visible(kind ?? "its run") }) : "a run"
] })
] }),
a4("h2", { class: "question", children: a4("bdi", { children: visible(approval2.subject ?? approval2.key) }) }),
a4(Standing, { approval: approval2 }),
a4(Decision, { approval: approval2, content, changed: both }, content?.text)
] });
}
function Standing({ approval: approval2 }) {
let votes = approval2.votes;
return a4("div", { class: "standing", children: [
a4("div", { class: votes.length > 0 ? "t-ok edge" : "", children: [
a4("span", { class: "muted", children: [
approved(approval2),
" of ",
approval2.quorum,
" approved"
] }),
votes.length === 0 && a4("span", { children: "no decision yet" }),
votes.map((vote) => a4("span", { children: [
a4("b", { title: vote.keyId, children: visible(nameOf(vote.keyId)) }),
" ",
vote.decision === "APPROVED" ? "approved" : a4("b", { class: "t-bad ink", children: "rejected" }),
vote.comment ? a4($, { children: [
": ",
a4("bdi", { children: [
"“",
visible(vote.comment),
"”"
] })
] }) : ""
] }, vote.keyId))
] }),
a4("div", { children: [
a4("span", { class: "muted", children: "without a decision" }),
a4("span", { children: approval2.expiresAt ? a4($, { children: [
(approval2.default ?? "expired").toLowerCase(),
" ",
a4(Time, { at: approval2.expiresAt })
] }) : "the run waits for up to 30 days, then it fails" })
] }),
a4("div", { children: [
a4("span", { class: "muted", children: "one rejection rejects" }),
a4("span", { children: approval2.quorum === 1 ? "one approval lets the run go on" : `${approval2.quorum} approvals let the run go on` })
] })
] });
}
function bound(approval2, content) {
if (!approval2.digest) return { state: "nothing" };
if (content === void 0) return { state: "unseen" };
let computed = contentDigest(content.text);
return { state: computed === approval2.digest ? "same" : "different", computed };
}
function Decision({
approval: approval2,
content,
changed
}) {
let isTable = useSignal(!0), isRendered = useSignal(!1), checked = bound(approval2, content);
A2(() => {
isRendered.value = !0;
}, []);
let rows = content ? tableRows(content.text) : void 0;
return a4($, { children: [
content && a4("div", { class: "doc", children: [
a4("header", { children: [
a4("b", { children: "What you approve" }),
content.of && a4("span", { class: "muted", children: visible(content.of) }),
a4("span", { class: "sp" }),
rows && a4($, { children: [
a4(
"button",
{
type: "button",
class: "link",
"aria-pressed": isTable.value,
onClick: () => {
isTable.value = !0;
},
children: "as table"
}
),
a4(
"button",
{
type: "button",
class: "link",
"aria-pressed": !isTable.value,
onClick: () => {
isTable.value = !1;
},
children: "as JSON"
}
)
] })
] }),
rows && isTable.value ? a4("table", { children: a4("tbody", { children: rows.map(([name, value]) => a4("tr", { children: [
a4("th", { scope: "row", children: a4("bdi", { children: visible(name) }) }),
a4("td", { children: a4("bdi", { children: visible(value) }) })
] }, name)) }) }) : a4(PayloadView, { text: content.text, label: "what you approve" })
] }),
a4(Binding, { approval: approval2, checked }),
approval2.state === "pending" && a4(Decide, { approval: approval2, checked, isRendered: isRendered.value, changed })
] });
}
function Binding({ approval: approval2, checked }) {
switch (checked.state) {
case "same":
return a4("p", { class: "binding t-ok", children: [
a4(Glyph, { name: "ok", size: 15 }),
a4("span", { children: [
"Your decision is bound to exactly this text. Computed here from what is shown:",
" ",
a4(Digest, { value: approval2.digest, short: !0 }),
", the same as the run asked for."
] })
] });
case "different":
return a4("p", { class: "binding t-bad", role: "alert", children: [
a4(Glyph, { name: "bad", size: 15 }),
a4("span", { children: [
a4("b", { children: "Do not decide." }),
" What is shown has the digest ",
a4(Digest, { value: checked.computed, short: !0 }),
", and the run asked about ",
a4(Digest, { value: approval2.digest, short: !0 }),
"."
] })
] });
case "unseen":
return a4("p", { class: "binding t-halt", children: [
a4(Glyph, { name: "halt", size: 15 }),
a4("span", { children: [
"The run asked about something with the digest ",
a4(Digest, { value: approval2.digest, short: !0 }),
" that the server does not have. Paste its digest below after you have looked at it elsewhere."
] })
] });
default:
return a4("p", { class: "binding t-queue", children: [
a4(Glyph, { name: "queue", size: 15 }),
a4("span", { children: "The run asks this question without content: you decide about the sentence above." })
] });
}
}
function Decide({ approval: approval2, checked, isRendered, changed }) {
let comment = useSignal(""), pasted = useSignal(""), isRejecting = useSignal(!1), isBusy = useSignal(!1), problem = useSignal(void 0), digest = checked.state === "unseen" ? pasted.value.trim() : checked.state === "same" ? checked.computed : void 0, isReady = isRendered && checked.state !== "different" && (checked.state !== "unseen" || /^[0-9a-f]{64}$/.test(digest ?? "")), send = async (decision) => {
await post(`v1/approvals/${approval2.approvalId}/decide`, {
decision,
comment: comment.value.trim() || void 0,
digest
}), await changed();
}, approve = async () => {
isBusy.value = !0, problem.value = void 0;
try {
await send("APPROVED");
} catch (error2) {
problem.value = asProblem(error2);
}
isBusy.value = !1;
}, line2 = (verb) => command(
"approvals",
verb,
approval2.approvalId,
...digest ? ["--digest", digest] : [],
...comment.value ? ["--comment", comment.value] : []
);
return a4("div", { class: "decide", children: [
checked.state === "unseen" && a4("div", { class: "field", children: [
a4("label", { for: "digest", children: "Digest of what you have looked at" }),
a4(
"input",
{
id: "digest",
type: "text",
class: "mono",
spellcheck: !1,
value: pasted.value,
onInput: (event) => {
pasted.value = event.currentTarget.value;
}
}
)
] }),
a4("label", { class: "vh", for: "comment", children: "Comment" }),
a4(
"textarea",
{
id: "comment",
placeholder: "Comment: why you decide so",
maxLength: 1e3,
value: comment.value,
onInput: (event) => {
comment.value = event.currentTarget.value;
}
}
),
problem.value && a4(Failed, { problem: problem.value, deed: "do" }),
a4("div", { class: "decide-foot", "data-actions": !0, children: [
a4("button", { type: "button", class: "btn go", disabled: !isReady || isBusy.value, onClick: approve, children: "Approve" }),
a4(
"button",
{
type: "button",
class: "btn no danger",
disabled: !isReady || isBusy.value,
onClick: () => {
isRejecting.value = !0;
},
children: "Reject…"
}
),
a4("span", { class: "muted", children: [
"You decide as ",
a4("b", { children: visible(nameOf(person.value?.keyId ?? "")) }),
". It is recorded and cannot be taken back."
] })
] }),
a4(Cli, { line: line2("approve") }),
isRejecting.value && a4(
Dialog,
{
title: "Reject?",
act: "Reject it",
isDanger: !0,
close: () => {
isRejecting.value = !1;
},
line: line2("reject"),
run: () => send("REJECTED"),
children: [
a4("p", { children: "One rejection rejects, whatever others have decided. The run is told and decides what follows. This cannot be taken back." }),
comment.value.trim() === "" && a4("p", { class: "muted", children: "You have written no comment: a reason helps the one who asked." })
]
}
)
] });
}

// src/parts/act.tsx
var asked = y3(void 0), close = () => {
asked.value = void 0;
};
function Act({ label, about, ...question }) {
return a4("span", { "data-actions": !0, children: a4(
"button",
{
type: "button",
class: `btn ${question.isDanger ? "danger" : ""}`,
"aria-label": about && `${label} ${about}…`,
onClick: () => {
asked.value = question;
},
children: [
label,
"…"
]
}
) });
}
function Asked() {
return A2(close, [place.value]), asked.value ? a4(Dialog, { ...asked.value, close }) : null;
}

// src/pages/keys.tsx
var PAGE3 = 500, KEYS_MAX2 = 2e3, GOOD = { tone: "ok", glyph: "ok", word: "in force" }, ROTATED = { tone: "retry", glyph: "retry", word: "two secrets" }, EXPIRED = { tone: "queue", glyph: "park", word: "expired" }, REVOKED = { tone: "bad", glyph: "cancel", word: "revoked" };
function keyLook(key2, now2) {
return key2.revokedAt ? REVOKED : (ms(key2.expiresAt) ?? 1 / 0) <= now2 ? EXPIRED : (ms(key2.previousSecretUntil) ?? 0) > now2 ? ROTATED : GOOD;
}
var CHOICES2 = [
["in-force", GOOD],
["expired", EXPIRED],
["revoked", REVOKED]
];
function isShown(key2, state, now2) {
let look2 = keyLook(key2, now2);
return state === "in-force" ? look2 === GOOD || look2 === ROTATED : state === "" || look2.word === state;
}
async function readAll(signal) {
let all = await readPages(KEYS_MAX2, async (after) => {
let page = await get("v1/keys", { query: { limit: PAGE3, after }, signal });
return [page.keys, page.nextAfter];
});
return all.items.sort((a5, b3) => ms(b3.createdAt) - ms(a5.createdAt)), all;
}
function KeysPage() {
document.title = "Keys · Tenure";
let state = place.value.query.get("state") ?? "", query = useQuery("keys", "operate", readAll), shown = ({ items }) => items.filter((key2) => isShown(key2, state, clock.value));
return a4($, { children: [
a4(
Head,
{
title: "Keys",
note: "who may enter, and as what; a secret is shown to its holder once, never here"
}
),
a4(Chips, { label: "State", name: "state", choices: CHOICES2 }),
a4(
Listing,
{
query,
isEmpty: (all) => shown(all).length === 0,
empty: a4(Empty, { title: "No key matches", lines: ["tenure keys create --role reader --name my-console"], children: "A key is made for one program or person, with the least roles that it needs." }),
children: (all) => a4($, { children: [
a4(Table, { isList: !0, items: shown(all), by: (key2) => key2.keyId, columns: columns(query.again) }),
all.isCut && a4("div", { class: "bound muted", children: [
"the first ",
all.items.length,
" keys by id"
] })
] })
}
),
a4(
Foot,
{
lines: [
"tenure keys list",
"tenure keys create --role reader --name my-console",
"tenure keys rotate KEY --overlap 24h"
]
}
)
] });
}
var isOwn = (key2) => key2.keyId === person.value?.keyId, columns = (again) => [
["state", (key2) => a4(Mark, { look: keyLook(key2, clock.value) }), "nowrap"],
[
"key",
(key2) => a4($, { children: [
key2.name && a4("b", { class: "strong", children: [
visible(key2.name),
" "
] }),
a4("code", { class: "soft", children: key2.keyId }),
" ",
isOwn(key2) && a4("span", { class: "tag", children: "yours" }),
a4("span", { class: "show-narrow", children: key2.roles.join(", ") })
] }),
"wide-cell"
],
["roles", ({ roles }) => roles.join(", "), "hide-narrow"],
["scope", ({ tenantId, workspaceId }) => visible(`${tenantId} / ${workspaceId}`), "hide-narrow"],
[
"queues",
({ queues }) => queues ? visible(queues.join(", ")) : a4("span", { class: "muted", children: "all" }),
"wide-cell hide-narrow"
],
["last used", ({ lastUsedAt }) => a4(Time, { at: lastUsedAt }), "nowrap hide-narrow"],
["ends", (key2) => a4(Ends, { of: key2 }), "nowrap hide-narrow"],
["", (key2) => !key2.revokedAt && a4(Revoke, { of: key2, again }), "r"]
];
function Ends({ of: { revokedAt, expiresAt, previousSecretUntil } }) {
return revokedAt ?? expiresAt ? a4(Time, { at: revokedAt ?? expiresAt }) : (ms(previousSecretUntil) ?? 0) > clock.value ? a4($, { children: [
"old secret ",
a4(Time, { at: previousSecretUntil })
] }) : a4("span", { class: "muted", children: "never" });
}
function Revoke({ of: key2, again }) {
return a4(
Act,
{
label: "Revoke",
about: key2.name ?? key2.keyId,
title: `Revoke ${visible(key2.name ?? key2.keyId)}?`,
act: "Revoke the key",
isDanger: !0,
line: command("keys", "revoke", key2.keyId),
run: async () => {
await post(`v1/keys/${key2.keyId}/revoke`, {}), isOwn(key2) || await again();
},
children: [
a4("p", { children: [
"The key ",
a4("code", { children: key2.keyId }),
" with the roles ",
a4("b", { children: key2.roles.join(", ") }),
" is refused from now on, by every coordinator within a second. This cannot be undone; the audit keeps its id."
] }),
key2.roles.includes("worker") && a4("p", { children: "Its workers get nothing new. What they hold goes on under their task tokens until the leases end." }),
isOwn(key2) && a4("p", { class: "t-bad ink", children: "This is the key that you are logged in with: it ends this session." })
]
}
);
}

// src/pages/flow-keys.tsx
var HOLDERS = 4, COLUMNS3 = [
["key", ({ key: key2 }) => visible(key2), "strong wide-cell"],
["holds", ({ held }) => held, "num r"],
["limit", ({ limit }) => limit ?? "–", "num r"],
["parked", ({ parked }) => parked, "num r"],
["opens", ({ opensAt }) => a4(Time, { at: opensAt })],
[
"holders",
({ holders }) => holders.slice(0, HOLDERS).map((id) => a4("a", { class: "tag", href: `runs/${id}`, children: id }, id)),
"wide-cell"
]
];
function FlowKeysCard() {
let query = useQuery(
"flow",
"queues",
(signal) => get("v1/flow-keys", { query: { limit: 200 }, signal })
);
return a4(Read, { query, children: ({ flowKeys }) => flowKeys.length === 0 ? a4("section", { class: "card", children: a4(Empty, { title: "No flow keys are in use", children: "Runs that share a flow key take turns: only so many of them are active at once, or start within a time." }) }) : a4(Card, { title: "Flow keys", note: "how many hold a slot, and how many wait for one", children: a4(Table, { items: flowKeys, by: ({ key: key2 }) => key2, columns: COLUMNS3 }) }) });
}

// src/pages/limits.tsx
function LimitsPage() {
return document.title = "Limits · Tenure", a4($, { children: [
a4(Head, { title: "Limits", note: "what may be used, and how near it is" }),
a4(Budgets, {}),
a4(Rates, {}),
mayRead("runs") && a4(FlowKeysCard, {})
] });
}
var BUDGETS = {
open: { tone: "ok", glyph: "ok", word: "open" },
soft: { tone: "retry", glyph: "retry", word: "beyond a soft limit" },
spent: { tone: "halt", glyph: "halt", word: "spent: new runs are refused" }
}, PERIODS = {
total: "for all time",
day: "each day",
month: "each month"
}, UNITS = [
["costMicros", "cost"],
["tokens", "tokens"],
["steps", "steps"],
["toolCalls", "tool calls"]
];
function amount(unit, value) {
return value == null ? "–" : unit !== "costMicros" ? value.toLocaleString("en") : (value / 1e6).toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 6 });
}
function rowsOf({ limits, soft, used }) {
return UNITS.flatMap(([unit, name]) => {
let [hard, told, now2] = [limits[unit], soft[unit], used[unit]], bound3 = hard ?? told;
if (bound3 == null) return [];
let share = bound3 === 0 ? 1 : Math.min(1, now2 / bound3), isOver = hard != null && now2 >= hard, isWarned = told != null && now2 >= told;
return {
unit: name,
used: amount(unit, now2),
soft: amount(unit, told),
limit: amount(unit, hard),
share,
tone: isOver ? "halt" : isWarned ? "retry" : "run"
};
});
}
function Meter({ share, tone, of }) {
let percent = `${Math.round(share * 100)} %`;
return a4("span", { class: "share", children: [
a4("span", { class: `meter t-${tone}`, role: "img", "aria-label": `${percent} of ${of}`, children: a4("i", { style: { width: `${share * 100}%` } }) }),
a4("span", { class: "num", "aria-hidden": "true", children: percent })
] });
}
var UNIT_COLUMNS = [
["unit", ({ unit }) => unit, "strong"],
["used", ({ used }) => used, "num r"],
["soft limit", ({ soft }) => soft, "num r hide-narrow"],
["limit", ({ limit }) => limit, "num r"],
[
"share",
({ share, tone, unit }) => share !== void 0 && a4(Meter, { share, tone, of: `the limit of ${unit}` })
]
];
function Budgets() {
let query = useQuery("budgets", "operate", (signal) => get("v1/budgets", { signal }));
return a4(Read, { query, children: ({ budgets }) => budgets.length === 0 ? a4("section", { class: "card", children: a4(
Empty,
{
title: "No tenant or workspace has a budget",
lines: ["tenure budgets set cost=5000000,tokens=200000,soft-tokens=150000 --period month"],
children: "A budget bounds what all runs of a workspace or tenant may use together. Money is counted in millionths of your unit of currency. Runs have budgets of their own besides."
}
) }) : budgets.map((budget) => a4(BudgetCard, { budget }, `${budget.tenantId} ${budget.workspaceId ?? ""}`)) });
}
function BudgetCard({ budget }) {
let { tenantId, workspaceId, period, resetsAt, state } = budget;
return a4(
Card,
{
title: `Budget of ${visible(`${tenantId} / ${workspaceId ?? "all workspaces"}`)}`,
note: a4($, { children: [
PERIODS[period],
resetsAt && a4($, { children: [
", begins anew ",
a4(Time, { at: resetsAt })
] })
] }),
aside: a4(Pill, { look: BUDGETS[state] }),
children: [
a4(Table, { isList: !0, items: rowsOf(budget), by: ({ unit }) => unit, columns: UNIT_COLUMNS }),
a4("div", { class: "pad-x pad-b", children: a4(Cli, { line: setLine(budget) }) })
]
}
);
}
function setLine({ tenantId, workspaceId, period, limits, soft }) {
let words2 = { costMicros: "cost", tokens: "tokens", steps: "steps", toolCalls: "tools" }, named = UNITS.flatMap(([unit]) => [
...limits[unit] != null ? [`${words2[unit]}=${limits[unit]}`] : [],
...soft[unit] != null ? [`soft-${words2[unit]}=${soft[unit]}`] : []
]), workspace = workspaceId ? ["--workspace", workspaceId] : [];
return command("budgets", "set", named.join(","), "--tenant", tenantId, ...workspace, "--period", period);
}
function Rates() {
let query = useQuery("limits", "operate", (signal) => get("v1/limits", { signal }));
return a4(Read, { query, children: ({ limits }) => limits.length === 0 ? a4("section", { class: "card", children: a4(
Empty,
{
title: "No tenant has a rate or a quota",
lines: ["tenure limits set default --requests-per-second 500 --unfinished-runs 100000"],
children: "A rate bounds the calls of clients and polls of workers, a quota the runs that wait or run. Heartbeats, reports and administration are never limited."
}
) }) : a4(Card, { title: "Rates and quotas", note: "of tenants; one that is not named has none", children: [
a4(Table, { isList: !0, items: limits, by: ({ tenantId }) => tenantId, columns: LIMITS }),
a4("div", { class: "pad-x pad-b", children: a4(Cli, { line: "tenure limits list" }) })
] }) });
}
var LIMITS = [
["tenant", ({ tenantId }) => visible(tenantId), "strong"],
["requests a second", ({ requestsPerSecond }) => requestsPerSecond ?? "–", "num r"],
["at once", ({ burst, requestsPerSecond }) => burst ?? requestsPerSecond ?? "–", "num r hide-narrow"],
["left now", ({ requestsLeftNow }) => requestsLeftNow ?? "–", "num r hide-narrow"],
["last refused", ({ limitedAt }) => a4(Time, { at: limitedAt }), "nowrap hide-narrow"],
["unfinished runs", ({ unfinishedRunsNow }) => unfinishedRunsNow.toLocaleString("en"), "num r"],
["quota", ({ unfinishedRuns }) => unfinishedRuns?.toLocaleString("en") ?? "–", "num r"],
["share", (tenant) => a4(Quota, { of: tenant }), "hide-narrow"],
["set", ({ changedAt }) => a4(Time, { at: changedAt }), "nowrap hide-narrow"]
];
function Quota({ of: { unfinishedRuns: quota, unfinishedRunsNow: now2 } }) {
if (quota == null) return null;
let share = quota === 0 ? 1 : Math.min(1, now2 / quota);
return a4(Meter, { share, tone: share >= 1 ? "bad" : share > 0.8 ? "retry" : "run", of: "the quota" });
}

// src/pages/login.tsx
function LoginPage() {
let typed = useSignal(""), problem = useSignal(void 0), isBusy = useSignal(!1);
return a4("main", { class: "login", children: a4("form", { class: "card pad", onSubmit: async (event) => {
if (event.preventDefault(), !looksLikeKey(typed.value)) {
problem.value = new Problem(
400,
"not_a_key",
"This is not an API key",
"a key begins with `tnr_` and has four parts; copy all of it"
);
return;
}
isBusy.value = !0, problem.value = await refusal(typed.value), isBusy.value = !1, problem.value || begin(typed.value);
}, children: [
a4("h1", { children: "Tenure" }),
a4("p", { class: "soft", children: "Every run, every lease, every reason." }),
endedBecause.value && a4("p", { class: "notice", role: "status", children: [
endedBecause.value,
"."
] }),
a4("label", { for: "key", children: "API key" }),
a4(
"input",
{
id: "key",
type: "password",
autocomplete: "off",
spellcheck: !1,
placeholder: "tnr_…",
value: typed.value,
onInput: (event) => {
typed.value = event.currentTarget.value;
}
}
),
problem.value && a4(Failed, { problem: problem.value }),
a4("button", { type: "submit", class: "btn primary wide", disabled: isBusy.value || typed.value === "", children: "Log in" }),
a4("p", { class: "muted", children: "The key stays in this tab and is sent to this server only. A key to look at everything and to change nothing:" }),
a4(Cli, { line: "tenure keys create --role reader --name my-console" })
] }) });
}
async function refusal(secret) {
try {
await get("v1/runs", { query: { limit: 1 }, headers: credentialsOf(secret) });
return;
} catch (error2) {
let problem = asProblem(error2);
return problem.status === 403 ? void 0 : problem.status === 401 ? unknown(problem) : problem;
}
}
function unknown({ status, code: code2, requestId }) {
return new Problem(
status,
code2,
"This server does not know this key",
"it may belong to another server, or it was revoked or has expired; ask for a new one, or make one with the command below",
requestId
);
}

// src/model/queues.ts
var STARVING_AFTER_MS = 5e3;
function queueRows(queues, workers, at) {
let names2 = new Set(queues.map((queue) => queue.queue)), polled = workers.flatMap((worker) => worker.polls.flatMap((poll) => poll.queues)), idle = [...new Set(polled)].filter((name) => !names2.has(name)).map((queue) => ({ queue, ready: 0, delayed: 0, running: 0 })), rows = [...queues, ...idle].map((queue) => row(queue, workers, at)), rank = (r4) => r4.isStarving ? 2 : r4.ready > 0 ? 1 : 0;
return rows.sort(
(a5, b3) => rank(b3) - rank(a5) || (b3.oldestMs ?? 0) - (a5.oldestMs ?? 0) || a5.queue.localeCompare(b3.queue)
);
}
function row(queue, workers, at) {
let serving = workers.filter(
(worker) => worker.polls.some((poll) => poll.queues.includes(queue.queue)) || worker.leases.some((lease) => lease.queue === queue.queue)
), polls = workers.reduce(
(sum2, worker) => sum2 + worker.polls.filter((poll) => poll.queues.includes(queue.queue)).reduce((n3, poll) => n3 + poll.count, 0),
0
), oldest = ms(queue.oldestReadyAt), oldestMs = oldest === void 0 ? void 0 : Math.max(0, at - oldest);
return {
...queue,
polls,
workers: serving.map((worker) => worker.workerId),
oldestMs,
isStarving: queue.ready > 0 && serving.length === 0 && !queue.pause && (oldestMs ?? 0) >= STARVING_AFTER_MS
};
}

// src/model/sample.ts
function buckets(runs, at, spanMs, count2) {
let width = spanMs / count2, from = at - spanMs, made = Array.from(
{ length: count2 },
(_3, i4) => ({ at: from + i4 * width, succeeded: 0, failed: 0, delays: [] })
), of = (t4) => t4 === void 0 || t4 < from || t4 >= at ? void 0 : made[Math.floor((t4 - from) / width)];
for (let run of runs) {
let end2 = of(ms(run.completedAt));
end2 && run.state === "succeeded" && end2.succeeded++, end2 && (run.state === "failed" || run.state === "halted") && end2.failed++;
let started = ms(run.startedAt), due = Math.max(ms(run.createdAt), ms(run.runAt) ?? 0);
started !== void 0 && run.attempt === 1 && of(started)?.delays.push(Math.max(0, started - due));
}
for (let bucket of made) bucket.delays.sort((a5, b3) => a5 - b3);
return made;
}
function quantile2(sorted, q2) {
return sorted.length === 0 ? Number.NaN : sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q2))];
}
function failing(runs) {
let groups = /* @__PURE__ */ new Map();
for (let run of runs) {
let reason = run.error?.reason ?? run.state, key2 = `${run.kind}
${reason}`, at = ms(run.completedAt) ?? ms(run.createdAt), group = groups.get(key2) ?? {
kind: run.kind,
reason,
message: run.error?.message ?? "",
count: 0,
last: run.runId,
lastAt: at
};
group.count++, at >= group.lastAt && Object.assign(group, { last: run.runId, lastAt: at, message: run.error?.message ?? "" }), groups.set(key2, group);
}
return [...groups.values()].sort((a5, b3) => b3.count - a5.count || b3.lastAt - a5.lastAt);
}
function axis(max) {
if (max <= 0) return [0, 1];
let rough = max / 3, power = 10 ** Math.floor(Math.log10(rough)), step = Math.max(1, [1, 2, 5, 10].map((m5) => m5 * power).find((s4) => s4 >= rough));
return Array.from({ length: Math.ceil(max / step) + 1 }, (_3, i4) => i4 * step);
}

// src/parts/chart.tsx
var HEIGHT = 168, LEFT = 52;
function Chart({ series, from, to, isStacked = !1, label, format = String }) {
let box = T2(null), width = useSignal(520);
A2(() => {
let measure = () => {
width.value = Math.max(280, box.current?.clientWidth ?? 520);
};
measure();
let observer = new ResizeObserver(measure);
return box.current && observer.observe(box.current), () => observer.disconnect();
}, []);
let count2 = series[0]?.values.length ?? 0, totals = Array.from(
{ length: count2 },
(_3, i4) => isStacked ? series.reduce((sum2, s4) => sum2 + s4.values[i4], 0) : Math.max(0, ...series.map((s4) => s4.values[i4]).filter(isKnown))
), ticks2 = axis(Math.max(0, ...totals)), max = ticks2.at(-1), x3 = (i4) => LEFT + i4 * (width.value - LEFT - 6) / Math.max(1, count2 - 1), y5 = (value) => HEIGHT - 22 - value * (HEIGHT - 34) / max, base2 = new Array(count2).fill(0);
return a4("div", { ref: box, class: "chart", children: a4("svg", { width: width.value, height: HEIGHT, role: "img", "aria-label": label, children: [
ticks2.map((tick) => a4("g", { children: [
a4("path", { class: "tick-rule", d: `M${LEFT} ${y5(tick)}H${width.value - 6}` }),
a4("text", { class: "tick", x: LEFT - 8, y: y5(tick) + 4, "text-anchor": "end", children: format(tick) })
] }, tick)),
series.map((one) => {
let upper2 = one.values.map((value, i4) => (isStacked ? base2[i4] : 0) + value), line2 = path(upper2, x3, y5), back = base2.map((value, i4) => `L${x3(count2 - 1 - i4)} ${y5(base2[count2 - 1 - i4] ?? value)}`).join(""), area = isStacked ? a4("path", { class: `t-${one.tone} area`, d: `${line2}${back}Z` }) : null;
return isStacked && upper2.forEach((value, i4) => {
base2[i4] = value;
}), a4("g", { children: [
area,
!isStacked && a4("path", { class: `t-${one.tone} curve ${one.isDashed ? "dashed" : ""}`, d: line2 }),
!isStacked && lonely(one.values).map((i4) => a4("circle", { class: `t-${one.tone} dot`, cx: x3(i4), cy: y5(one.values[i4]), r: "2" }, i4))
] }, one.name);
}),
[0, 1 / 3, 2 / 3, 1].map((share) => a4(
"text",
{
class: "tick",
x: LEFT + share * (width.value - LEFT - 6),
y: HEIGHT - 4,
"text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle",
children: share === 1 ? "now" : clockTime(
from + share * (to - from),
from + share * (to - from),
timeStyle.value === "utc"
).slice(0, 5)
},
share
))
] }) });
}
var isKnown = (value) => value !== void 0 && !Number.isNaN(value);
function path(values, x3, y5) {
let to = (value, i4) => `${isKnown(values[i4 - 1]) ? "L" : "M"}${x3(i4).toFixed(1)} ${y5(value).toFixed(1)}`;
return values.map((value, i4) => isKnown(value) ? to(value, i4) : "").join("");
}
function lonely(values) {
return values.flatMap(
(value, i4) => isKnown(value) && !isKnown(values[i4 - 1]) && !isKnown(values[i4 + 1]) ? [i4] : []
);
}
function Spark({ values, tone }) {
let [width, height] = [84, 26], max = Math.max(...values, 1), line2 = path(
values,
(i4) => i4 * width / Math.max(1, values.length - 1),
(value) => height - 2 - value * (height - 5) / max
);
return a4("svg", { class: `spark t-${tone}`, width, height, "aria-hidden": "true", children: [
a4("path", { class: "soft-area", d: `${line2}L${width} ${height}L0 ${height}Z` }),
a4("path", { class: "curve", d: line2 })
] });
}
function ChartLegend({ series }) {
return a4("span", { class: "legend", children: series.map((one) => a4("span", { children: [
a4("svg", { width: "14", height: "10", "aria-hidden": "true", children: a4("path", { class: `t-${one.tone} curve thick ${one.isDashed ? "dashed" : ""}`, d: "M0 5H14" }) }),
one.name
] }, one.name)) });
}

// src/timeline/events.ts
var text = (value) => typeof value == "string" ? value : void 0, number = (value) => typeof value == "number" ? value : void 0;
function eventsOf(run, entries, effects, at) {
let completed = ms(run.completedAt), reader = new Reader2();
for (let entry of entries) reader.take(entry);
let { attempts: attempts2, waits, children, signals } = reader, last = attempts2.at(-1);
return last && last.ended === void 0 && run.lease && (last.lastBeat = Math.max(last.lastBeat, ms(run.lease.heartbeatAt)), last.expires = ms(run.lease.expiresAt)), {
from: ms(run.createdAt),
to: completed ?? at,
isOpen: completed === void 0,
attempts: attempts2,
waits,
children,
signals,
effects: effects.map(effectSpan),
refused: (run.refused ?? []).map(refusal2)
};
}
function refusal2(call2) {
let { attempt, workerId, error: error2, verdict: verdict2 } = call2;
return { at: ms(call2.at), attempt, worker: workerId, call: call2.call, error: error2, verdict: verdict2 };
}
function effectSpan(effect) {
let told = [...(effect.log ?? []).map((change) => change.lastTry), effect.lastTry], statuses = new Map(
told.flatMap(
(one) => one ? [[ms(one.at), one.status ?? void 0]] : []
)
), last = ms(effect.lastTry?.at), tries = [...statuses].map(([at, status]) => ({ at, status, isLast: at === last }));
return {
id: effect.effectId,
type: effect.type,
endpoint: effect.endpoint,
state: effect.state,
from: ms(effect.decidedAt),
to: ms(effect.settledAt),
tries
};
}
var Reader2 = class {
attempts = [];
waits = [];
children = [];
signals = [];
take(entry) {
let at = ms(entry.at), { detail, n: n3, kind } = entry, open2 = this.attempts.at(-1)?.ended === void 0 ? this.attempts.at(-1) : void 0;
this.step(open2, at, entry), open2 && text(detail.outcome) !== void 0 && closes(entry) && close2(open2, at, entry), this.approval(at, entry), this.wait(at, entry), this.child(at, entry);
let signal = text(detail.signal);
signal !== void 0 && !signal.startsWith("#") && this.signals.push({ at, name: signal, n: n3 }), kind === "granted" ? this.grant(open2, at, entry) : open2 && open2.ended === void 0 && renew(open2, at, entry), kind === "started" && open2 && (open2.started ??= at);
}
grant(open2, at, entry) {
open2 && open2.ended === void 0 && close2(open2, at, entry);
let expires = ms(text(entry.detail.leaseExpiresAt)) ?? at;
this.attempts.push({
n: entry.attempt ?? this.attempts.length + 1,
owner: text(entry.detail.owner) ?? "",
fence: number(entry.detail.fence) ?? 0,
granted: at,
leaseMs: expires - at,
lastBeat: at,
expires,
steps: [],
entry: entry.n
});
}
step(open2, at, entry) {
let key2 = text(entry.detail.step);
key2 === void 0 || !open2 || (open2.started ??= at, open2.steps.push({ at, key: key2, isFailed: entry.detail.outcome === "FAILED", n: entry.n }));
}
approval(at, entry) {
let { detail, n: n3 } = entry, approval2 = number(detail.approval);
if (approval2 === void 0) return;
let key2 = text(detail.key), wait = this.waits.find((other) => other.approval === approval2);
if (!wait && key2 !== void 0 && (wait = { key: key2, kind: "approval", name: key2, from: at, approval: approval2, votes: [], entry: n3 }, this.waits.push(wait)), !wait) return;
let decision = text(detail.decision), by = text(detail.by);
decision !== void 0 && by !== void 0 && wait.votes.push({
at,
by,
isApproval: decision === "APPROVED",
comment: text(detail.comment) || void 0,
n: n3
});
let outcome = text(detail.outcome);
(entry.kind === "approval_closed" || decision !== void 0 && outcome !== void 0) && wait.to === void 0 && (wait.to = at, wait.outcome = outcome === "SUCCEEDED" || outcome === "FAILED" ? decision : outcome);
}
wait(at, entry) {
let key2 = text(entry.detail.wait);
if (key2 === void 0) return;
let same = (wait) => wait.to === void 0 && (wait.key === key2 || wait.kind === "approval" && key2.endsWith(wait.key)), open2 = this.waits.find(same), begins = entry.detail.outcome === "SUSPENDED" || entry.detail.state === "waiting";
!begins && open2 && (open2.to = at), begins && !open2 && this.waits.push({ key: key2, ...waitKind(key2), from: at, votes: [], entry: entry.n });
}
child(at, entry) {
let { detail, n: n3 } = entry, spawned = text(detail.childKey);
spawned !== void 0 && (entry.kind === "child_spawned" || text(detail.childTaskId) !== void 0) && this.children.push({ key: spawned, taskId: text(detail.childTaskId), from: at, entry: n3 });
let ended2 = text(detail.child), child = this.children.find((child2) => child2.key === ended2);
child && (child.to = at, child.state = text(detail.childState));
}
};
function closes(entry) {
return entry.kind === "attempt_closed" || entry.kind !== "granted" && text(entry.detail.leaseId) !== void 0;
}
function close2(attempt, at, entry) {
let { detail } = entry;
attempt.ended = at, attempt.outcome = text(detail.outcome) ?? "RELEASED", attempt.reason = text(detail.reason), attempt.message = text(detail.message), attempt.closedBy = entry.n, (attempt.outcome === "LOST" || attempt.outcome === "UNDELIVERED") && (attempt.lastBeat = Math.max(attempt.lastBeat, Math.min(at, at - attempt.leaseMs))), attempt.expires = at;
}
function renew(attempt, at, entry) {
let expires = ms(text(entry.detail.leaseExpiresAt));
expires !== void 0 && (attempt.lastBeat = at, attempt.expires = expires);
}
function waitKind(key2) {
let plain3 = key2.replace(/^wait:/, "").replace(/#\d+$/, ""), [kind, ...rest] = plain3.split(":"), name = rest.join(":");
return kind === "sleep" ? { kind: "sleep", name: "Sleep" } : kind === "signal" ? { kind: "signal", name: name || plain3 } : kind === "approval" ? { kind: "approval", name: name || plain3 } : kind === "child" ? { kind: "child", name: name || plain3 } : { kind: "other", name: plain3 };
}

// src/pages/overview.tsx
var SAMPLE = 400, SPANS = { "15m": 9e5, "1h": 36e5, "24h": 864e5 }, BUCKETS = 48, SUSPECTS_MAX = 8, ended = /* @__PURE__ */ new Map();
async function readTrouble(listed, signal) {
let known = ended.get(listed.runId);
if (known) return known;
let [run, history2] = await Promise.all([
get(`v1/runs/${listed.runId}`, { signal }),
get(`v1/runs/${listed.runId}/history`, { query: { limit: 500 }, signal })
]), trouble = { run, events: eventsOf(run, history2.entries, [], now()) };
return isEnded(run.state) && now() - ms(run.completedAt) > 6e4 && ended.set(run.runId, trouble), trouble;
}
async function read2(spanMs, signal) {
let since = new Date(now() - spanMs).toISOString(), runs = (query) => get("v1/runs", { query, signal }), optional = (reading) => reading.catch(() => {
}), [recent, failed, halted, running2, approvals2, dead, queues, workers, setAside] = await Promise.all([
runs({ since, limit: SAMPLE }),
runs({ state: "failed", since, limit: 200 }),
runs({ state: "halted", since, limit: 50 }),
runs({ state: "running", limit: 100 }),
optional(get("v1/approvals", { query: { state: "pending", limit: 50 }, signal })),
mayRead("effects") ? optional(get("v1/effects", { query: { state: "dead", limit: 20 }, signal })) : void 0,
optional(get("v1/queues", { signal })),
optional(get("v1/workers", { query: { limit: 1e3 }, signal })),
mayRead("audit") ? optional(get("v1/set-aside", { signal })) : void 0
]), suspects = recent.runs.filter((run) => run.attempt > 1 || run.lost > 0).slice(0, SUSPECTS_MAX), troubles = await Promise.all(suspects.map((run) => optional(readTrouble(run, signal))));
return {
recent,
failed: failed.runs,
halted: halted.runs,
running: running2.runs,
troubles: troubles.filter((trouble) => trouble !== void 0),
approvals: approvals2?.approvals ?? [],
dead: dead?.effects ?? [],
queues: queueRows(queues?.queues ?? [], workers?.workers ?? [], now()),
setAside: setAside?.tasks.length ?? 0,
at: now()
};
}
function OverviewPage() {
let name = place.value.query.get("span") ?? "1h", spanMs = SPANS[name] ?? 36e5, query = useQuery(`overview ${name}`, "overview", (signal) => read2(spanMs, signal)), state = query.data.value;
return document.title = "Overview · Tenure", a4($, { children: [
a4("div", { class: "head", children: [
a4("h1", { children: "Overview" }),
a4("span", { class: "sp" }),
a4("nav", { class: "segments", "aria-label": "Span", children: Object.keys(SPANS).map((each) => a4(
"a",
{
class: each === name ? "on" : "",
"aria-current": each === name ? "true" : void 0,
href: withQuery({ span: each }) || "./",
children: each.replace("m", " min").replace("h", " h")
},
each
)) })
] }),
query.problem.value && a4(Failed, { problem: query.problem.value, again: query.again }),
!state && !query.problem.value && a4(Loading, { rows: 14 }),
state && state.recent.runs.length === 0 && state.running.length === 0 && state.queues.length === 0 ? a4(Fresh, {}) : state && a4(Shown2, { state, spanMs })
] });
}
function Fresh() {
return a4("section", { class: "card", children: a4(
Empty,
{
title: "Nothing has run here lately",
lines: [
"tenure work --queue demo --exec cat",
`tenure submit hello --queue demo --input '{"name":"Ada"}' --wait`,
"tenure tour"
],
children: "Any program can be a worker. Start one, submit a run, and watch it here."
}
) });
}
function Shown2({ state, spanMs }) {
return a4($, { children: [
a4(NeedsYou, { state }),
a4(Figures2, { state, spanMs }),
a4(Plots, { state, spanMs }),
a4("div", { class: "three", children: [
a4(QueuesCard, { state }),
a4(LeasesCard, { state }),
a4(TakeoversCard, { state })
] }),
state.failed.length > 0 && a4(FailingCard, { state })
] });
}
function needs(state) {
let found = [];
for (let queue of state.queues.filter((queue2) => queue2.isStarving))
found.push({
id: `queue ${queue.queue}`,
tone: "bad",
glyph: "bad",
title: `${queue.queue}: ${queue.ready} ${queue.ready === 1 ? "run waits" : "runs wait"}, and no worker polls`,
note: "",
since: ms(queue.oldestReadyAt),
to: `queues/${queue.queue.replaceAll("/", "~")}`,
act: "Show queue"
});
for (let effect of state.dead)
found.push({
id: effect.effectId,
tone: "bad",
glyph: "bad",
title: `${effect.endpoint} did not take ${effect.type}: dead after ${effect.tries} ${effect.tries === 1 ? "try" : "tries"}`,
note: effect.blocks ? "what follows it waits" : "",
since: ms(effect.settledAt) ?? ms(effect.decidedAt),
to: `effects/${effect.effectId}`,
act: "Look"
});
let approvals2 = [...state.approvals].sort(
(a5, b3) => (ms(a5.expiresAt) ?? Number.MAX_VALUE) - (ms(b3.expiresAt) ?? Number.MAX_VALUE)
);
for (let approval2 of approvals2) {
let expires = approval2.expiresAt ? `; ${(approval2.default ?? "EXPIRED").toLowerCase()} ${relative(ms(approval2.expiresAt), clock.value)}` : "", votes = approval2.votes.filter((vote) => vote.decision === "APPROVED").length;
found.push({
id: approval2.approvalId,
tone: "wait",
glyph: "wait",
title: approval2.subject ?? approval2.key,
note: `${votes} of ${approval2.quorum} approved${expires}`,
since: ms(approval2.openedAt),
to: `inbox/${approval2.approvalId}`,
act: "Decide"
});
}
for (let run of state.halted.filter((run2) => (run2.forks ?? []).length === 0))
found.push({
id: run.runId,
tone: "halt",
glyph: "halt",
title: `${run.kind} halted: ${run.error?.message ?? ""}`,
note: `${run.durable?.steps ?? 0} recorded steps are kept`,
since: ms(run.completedAt) ?? 0,
to: `runs/${run.runId}`,
act: "Look"
});
for (let queue of state.queues.filter((queue2) => queue2.pause && queue2.ready > 0))
found.push({
id: `pause ${queue.queue}`,
tone: "retry",
glyph: "park",
title: `${queue.queue} is paused, and ${queue.ready} ${queue.ready === 1 ? "waits" : "wait"}`,
note: queue.pause?.reason ?? "",
since: ms(queue.pause?.pausedAt) ?? 0,
to: `queues/${queue.queue.replaceAll("/", "~")}`,
act: "Show queue"
});
return state.setAside > 0 && found.push({
id: "set-aside",
tone: "bad",
glyph: "bad",
title: `${state.setAside} tasks are set aside`,
note: "the server could not decide about them",
since: state.at,
to: "runs",
act: "Look"
}), found;
}
function NeedsYou({ state }) {
let all = needs(state);
if (all.length === 0)
return a4("section", { class: "card calm t-ok", children: [
a4(Glyph, { name: "ok", size: 15 }),
" ",
a4("b", { children: "Nothing waits for a person" })
] });
let oldest = Math.min(...all.map((need) => need.since));
return a4(
Card,
{
title: "Needs you",
note: `${all.length > 5 ? `5 of ${all.length}` : all.length}, the oldest since ${roughly(clock.value - oldest)}`,
aside: a4("a", { href: "inbox", children: "Inbox" }),
children: a4("ul", { class: "needs", children: all.slice(0, 5).map((need) => a4("li", { children: [
a4("span", { class: `t-${need.tone} ink`, children: a4(Glyph, { name: need.glyph, size: 15 }) }),
a4("span", { class: "what", children: [
a4("b", { children: a4("bdi", { children: visible(need.title) }) }),
" ",
a4("span", { class: "soft", children: visible(need.note) })
] }),
a4("span", { class: "muted nowrap", children: [
"since ",
roughly(clock.value - need.since)
] }),
a4("a", { class: "btn", "data-row": !0, href: need.to, "aria-label": `${need.act}: ${need.title}`, children: need.act })
] }, need.id)) })
}
);
}
function Figure({
name,
value,
note,
children,
tone
}) {
return a4("div", { class: "figure", children: [
a4("span", { class: "soft", children: name }),
a4("span", { class: "value", children: [
a4("b", { class: tone ? `t-${tone} ink` : "", children: value }),
children
] }),
a4("span", { class: "muted", children: note })
] });
}
function Figures2({ state, spanMs }) {
let series = buckets(state.recent.runs, state.at, spanMs, 24), ended2 = series.map((bucket) => bucket.succeeded + bucket.failed), total = ended2.reduce((a5, b3) => a5 + b3, 0), failed = series.reduce((sum2, bucket) => sum2 + bucket.failed, 0), waiting2 = state.queues.reduce((sum2, queue) => sum2 + queue.ready, 0), delayed = state.queues.reduce((sum2, queue) => sum2 + queue.delayed, 0), parked = state.queues.reduce((sum2, queue) => sum2 + (queue.parked ?? 0), 0), oldest = state.queues.filter((queue) => queue.oldestMs !== void 0).sort((a5, b3) => b3.oldestMs - a5.oldestMs)[0], workers = new Set(state.running.map((run) => run.lease?.owner).filter(Boolean)).size, lost2 = state.troubles.reduce(
(sum2, { events }) => sum2 + events.attempts.filter((attempt) => attempt.outcome === "LOST").length,
0
), refused2 = state.troubles.reduce((sum2, { events }) => sum2 + events.refused.length, 0);
return a4("section", { class: "card figures", "aria-label": "Figures", children: [
a4(
Figure,
{
name: "Ended",
value: String(total),
note: `in ${span(spanMs).replace(" 00 s", "").replace(" 00 min", "")}${state.recent.nextCursor ? `, of the newest ${state.recent.runs.length}` : ""}`,
children: a4(Spark, { values: ended2, tone: "ok" })
}
),
a4(Figure, { name: "Waiting", value: String(waiting2), note: `+ ${parked} parked, ${delayed} delayed` }),
a4(
Figure,
{
name: "Oldest waiting",
value: oldest ? roughly(oldest.oldestMs) : "–",
note: oldest ? visible(oldest.queue) : "nothing waits",
tone: oldest?.isStarving ? "bad" : void 0
}
),
a4(
Figure,
{
name: "Running",
value: `${state.running.length}${state.running.length === 100 ? "+" : ""}`,
note: `on ${workers} ${workers === 1 ? "worker" : "workers"}`
}
),
a4(
Figure,
{
name: "Failed or halted",
value: total === 0 ? "–" : `${(100 * failed / total).toFixed(failed === 0 || failed * 10 > total ? 0 : 2)} %`,
note: `${failed} of ${total}`,
tone: failed > 0 ? "bad" : void 0,
children: a4(Spark, { values: series.map((bucket) => bucket.failed), tone: "bad" })
}
),
a4(
Figure,
{
name: "Refused reports",
value: String(refused2),
note: `and ${lost2} lost ${lost2 === 1 ? "attempt" : "attempts"}`,
tone: refused2 > 0 ? "refused" : void 0
}
)
] });
}
function Plots({ state, spanMs }) {
let series = buckets(state.recent.runs, state.at, spanMs, BUCKETS), perMinute = (n3) => n3 * BUCKETS * 6e4 / spanMs, ended2 = [
{ name: "succeeded", tone: "ok", values: series.map((bucket) => perMinute(bucket.succeeded)) },
{ name: "failed", tone: "bad", values: series.map((bucket) => perMinute(bucket.failed)) }
], delays = [
{ name: "p50", tone: "run", values: series.map((bucket) => quantile2(bucket.delays, 0.5)) },
{
name: "p95",
tone: "wait",
values: series.map((bucket) => quantile2(bucket.delays, 0.95)),
isDashed: !0
}
], note = state.recent.nextCursor ? `of the newest ${state.recent.runs.length} runs` : "", range = { from: state.at - spanMs, to: state.at }, max = axis(Math.max(0, ...delays[1].values.filter((value) => !Number.isNaN(value)))).at(-1);
return a4("div", { class: "two", children: [
a4(Card, { title: "Ended per minute", note, aside: a4(ChartLegend, { series: ended2 }), children: a4("div", { class: "pad-x pad-b", children: a4(Chart, { series: ended2, isStacked: !0, label: `Ended per minute ${note}`, ...range }) }) }),
a4(Card, { title: "Time from ready to started", note, aside: a4(ChartLegend, { series: delays }), children: a4("div", { class: "pad-x pad-b", children: a4(
Chart,
{
series: delays,
label: `Time from ready to started, at most ${span(max)}`,
format: (value) => value === 0 ? "0" : roughly(value),
...range
}
) }) })
] });
}
function served(queue) {
return queue.pause ? a4("b", { class: "t-retry ink", children: "paused" }) : queue.isStarving ? a4("b", { class: "t-bad ink", children: "no worker" }) : queue.polls > 0 ? `${queue.polls} ${queue.polls === 1 ? "polls" : "poll"}` : queue.workers.length > 0 ? `${queue.workers.length} busy` : "no worker";
}
function QueuesCard({ state }) {
return a4(Card, { title: "Queues", aside: a4("a", { href: "queues", children: [
"all ",
state.queues.length
] }), children: [
state.queues.length === 0 && a4("p", { class: "pad-x muted", children: "No queue has work or a worker." }),
state.queues.length > 0 && a4("table", { children: [
a4("thead", { children: a4("tr", { children: [
a4("th", { children: "queue" }),
a4("th", { class: "r", children: "waiting" }),
a4("th", { class: "r", children: "running" }),
a4("th", { class: "r", children: "oldest" }),
a4("th", { children: "workers" })
] }) }),
a4("tbody", { children: state.queues.slice(0, 6).map((queue) => a4("tr", { children: [
a4("td", { children: a4("a", { class: "clip", href: `queues/${queue.queue.replaceAll("/", "~")}`, children: visible(queue.queue) }) }),
a4("td", { class: "num r", children: queue.ready }),
a4("td", { class: "num r", children: queue.running }),
a4("td", { class: "num r", children: queue.oldestMs === void 0 ? "" : roughly(queue.oldestMs) }),
a4("td", { class: "nowrap", children: served(queue) })
] }, queue.queue)) })
] })
] });
}
function LeasesCard({ state }) {
let held = state.running.filter((run) => run.lease).sort((a5, b3) => ms(a5.lease.expiresAt) - ms(b3.lease.expiresAt));
return a4(Card, { title: "Next leases to expire", aside: a4("a", { href: "queues?tab=leases", children: [
"all ",
held.length
] }), children: [
held.length === 0 && a4("p", { class: "pad-x muted", children: "No lease is held." }),
held.length > 0 && a4("table", { children: [
a4("thead", { children: a4("tr", { children: [
a4("th", { children: "run" }),
a4("th", { children: "worker" }),
a4("th", { class: "r", children: "ends in" }),
a4("th", { children: a4("span", { class: "vh", children: "share of the lease" }) })
] }) }),
a4("tbody", { children: held.slice(0, 6).map((run) => a4(LeaseRow, { run }, run.runId)) })
] })
] });
}
function LeaseRow({ run }) {
let lease = run.lease, left2 = ms(lease.expiresAt) - clock.value, whole = Math.max(1, ms(lease.expiresAt) - ms(lease.heartbeatAt)), share = Math.min(1, Math.max(0, left2 / whole)), tone = share < 0.15 ? "bad" : share < 0.4 ? "retry" : "run";
return a4("tr", { children: [
a4("td", { children: a4("a", { class: "clip", "data-row": !0, href: `runs/${run.runId}`, children: visible(run.kind) }) }),
a4("td", { class: "soft", children: a4("span", { class: "clip", children: visible(lease.owner) }) }),
a4("td", { class: `num r t-${tone} ${tone === "run" ? "" : "ink"}`, children: left2 <= 0 ? "expired" : span(left2) }),
a4("td", { children: a4("span", { class: `meter t-${tone}`, children: a4("i", { style: { width: `${Math.round(100 * share)}%` } }) }) })
] });
}
function happeningsOf({ run, events }) {
let refusals2 = events.refused.map(
(call2, i4) => ({
id: `${run.runId} ${i4}`,
at: call2.at,
glyph: "refused",
tone: "refused",
what: `${call2.call} of ${call2.worker}`,
run
})
), takeovers2 = events.attempts.flatMap((attempt, i4) => {
let before = events.attempts[i4 - 1];
return before?.outcome !== "LOST" ? [] : [
{
id: `${run.runId} t${i4}`,
at: attempt.granted,
glyph: "take",
tone: "retry",
what: `${attempt.owner} from ${before.owner}`,
run
}
];
});
return [...refusals2, ...takeovers2];
}
function TakeoversCard({ state }) {
let happenings = state.troubles.flatMap(happeningsOf);
return happenings.sort((a5, b3) => b3.at - a5.at), a4(Card, { title: "Takeovers and refusals", children: [
happenings.length === 0 && a4("p", { class: "pad-x pad-b muted", children: "None. A worker that dies or goes silent loses its lease, another one takes over, and a late report is refused: it would be shown here." }),
happenings.length > 0 && a4("table", { children: [
a4("thead", { children: a4("tr", { children: [
a4("th", { children: a4("span", { class: "vh", children: "kind" }) }),
a4("th", { children: "what" }),
a4("th", { class: "r", children: "when" })
] }) }),
a4("tbody", { children: happenings.slice(0, 6).map((one) => a4("tr", { children: [
a4("td", { class: `t-${one.tone} ink`, children: a4(Glyph, { name: one.glyph, size: 13 }) }),
a4("td", { children: a4("span", { class: "clip", children: [
visible(one.what),
", ",
a4("a", { href: `runs/${one.run.runId}`, children: visible(one.run.kind) })
] }) }),
a4("td", { class: "r nowrap", children: a4(Time, { at: one.at }) })
] }, one.id)) })
] })
] });
}
function FailingCard({ state }) {
let look2 = stateLook("failed");
return a4(
Card,
{
title: "Failing kinds",
note: `${state.failed.length}${state.failed.length === 200 ? " or more" : ""} failed runs`,
aside: a4("a", { href: "runs?state=failed", children: "all failed" }),
children: a4("table", { children: [
a4("thead", { children: a4("tr", { children: [
a4("th", { children: "kind" }),
a4("th", { children: "reason" }),
a4("th", { class: "r", children: "runs" }),
a4("th", { class: "r", children: "last" }),
a4("th", { class: "hide-narrow", children: "message of the last" })
] }) }),
a4("tbody", { children: failing(state.failed).slice(0, 6).map((group) => a4("tr", { children: [
a4("td", { class: "nowrap", children: [
a4("span", { class: `t-${look2.tone} ink`, children: a4(Glyph, { name: look2.glyph }) }),
" ",
a4("a", { href: `runs?state=failed&kind=${encodeURIComponent(group.kind)}`, children: visible(group.kind) })
] }),
a4("td", { children: a4("code", { children: group.reason }) }),
a4("td", { class: "num r", children: group.count }),
a4("td", { class: "r nowrap", children: a4(Time, { at: group.lastAt }) }),
a4("td", { class: "wide-cell hide-narrow", children: a4("a", { href: `runs/${group.last}`, children: visible(group.message) }) })
] }, group.kind + group.reason)) })
] })
}
);
}

// src/pages/queues.tsx
var TABS = [
["queues", "Queues"],
["workers", "Workers"],
["leases", "Leases"],
["flow", "Flow keys"]
];
function QueuesPage({ name }) {
let tab = place.value.query.get("tab") ?? "queues", only = name?.replaceAll("~", "/");
return document.title = "Queues · Tenure", a4($, { children: [
only && a4(Crumb, { name: "Queues", to: "queues" }),
a4(Head, { title: only ?? "Queues" }),
a4(
Tabs,
{
tabs: TABS.map(([id, title]) => [id, only && id === "queues" ? "Queue" : title]),
on: TABS.some(([id]) => id === tab) ? tab : "queues"
}
),
tab === "workers" && a4(WorkersTab, { only }),
tab === "leases" && a4(LeasesTab, { only }),
tab === "flow" && a4(FlowKeysCard, {}),
!["workers", "leases", "flow"].includes(tab) && a4(QueuesTab, { only })
] });
}
function QueuesTab({ only }) {
let query = useQuery("queues", "queues", async (signal) => {
let [queues, workers] = await Promise.all([
get("v1/queues", { signal }),
get("v1/workers", { query: { limit: 1e3 }, signal })
]);
return queueRows(queues.queues, workers.workers, now());
});
return a4(Read, { query, children: (all) => {
let rows = only === void 0 ? all : all.filter((row2) => row2.queue === only);
return rows.length === 0 ? a4("section", { class: "card", children: a4(
Empty,
{
title: only ? "Nothing waits or runs in this queue" : "No queue has work or a worker",
lines: [
command("work", "--queue", only ?? "demo", "--exec", "cat"),
command("submit", "hello", "--queue", only ?? "demo", "--wait")
],
children: "A queue exists as soon as a run names it or a worker polls it."
}
) }) : a4($, { children: [
rows.map((row2) => a4(QueueCard, { row: row2, again: query.again }, row2.queue)),
a4(Foot, { lines: ["tenure queues"] })
] });
} });
}
function QueueCard({ row: row2, again }) {
let open2 = useSignal(void 0), close3 = () => {
open2.value = void 0;
};
return a4("section", { class: "card queue", "aria-label": row2.queue, children: [
a4("div", { class: "queue-head", children: [
a4(
"span",
{
class: `t-${row2.isStarving ? "bad" : row2.pause ? "retry" : row2.running > 0 ? "run" : "queue"} ink`,
children: a4(
Glyph,
{
name: row2.isStarving ? "bad" : row2.pause ? "park" : row2.running > 0 ? "run" : "queue",
size: 14
}
)
}
),
a4("h2", { children: a4("a", { "data-row": !0, href: `queues/${inPath(row2.queue)}`, children: visible(row2.queue) }) }),
a4("span", { class: "sp" }),
row2.pause ? a4(
"button",
{
type: "button",
class: "btn",
onClick: () => {
open2.value = "resume";
},
children: "Resume…"
}
) : a4(
"button",
{
type: "button",
class: "btn",
onClick: () => {
open2.value = "pause";
},
children: "Pause…"
}
),
a4("a", { class: "btn", href: `runs?queue=${encodeURIComponent(row2.queue)}`, children: "Runs" })
] }),
row2.isStarving && a4("p", { class: "t-bad ink", children: [
a4("b", { children: "No worker polls this queue." }),
" ",
row2.ready,
" ",
row2.ready === 1 ? "run waits" : "runs wait",
" for one since ",
roughly(row2.oldestMs ?? 0),
"."
] }),
row2.pause && a4("p", { class: "t-retry ink", children: [
"Paused by ",
a4("b", { title: row2.pause.pausedBy, children: visible(nameOf(row2.pause.pausedBy)) }),
" ",
a4(Time, { at: row2.pause.pausedAt }),
row2.pause.reason ? a4($, { children: [
": ",
a4("bdi", { children: [
"“",
visible(row2.pause.reason),
"”"
] })
] }) : "",
". Nothing is leased from it; what runs goes on."
] }),
a4("dl", { class: "numbers", children: [
a4(Count, { name: "waiting", value: row2.ready }),
a4(Count, { name: "running", value: row2.running }),
a4(Count, { name: "delayed", value: row2.delayed }),
a4(Count, { name: "parked", value: row2.parked ?? 0 }),
a4(Count, { name: "oldest", value: row2.oldestMs === void 0 ? "–" : span(row2.oldestMs) }),
a4(Count, { name: "polls", value: row2.polls }),
a4("div", { children: [
a4("dt", { children: "workers" }),
a4("dd", { children: [
row2.workers.length === 0 ? "none" : row2.workers.slice(0, 6).map((worker) => a4("a", { class: "tag", href: `runs?worker=${encodeURIComponent(worker)}`, children: visible(worker) }, worker)),
row2.workers.length > 6 && ` and ${row2.workers.length - 6} more`
] })
] })
] }),
open2.value && a4(PauseDialog, { row: row2, verb: open2.value, close: close3, again })
] });
}
function Count({ name, value }) {
return a4("div", { children: [
a4("dt", { children: name }),
a4("dd", { class: "num", children: value })
] });
}
function PauseDialog({
row: row2,
verb,
close: close3,
again
}) {
let reason = useSignal(""), isPause = verb === "pause";
return a4(
Dialog,
{
title: isPause ? `Pause ${row2.queue}?` : `Resume ${row2.queue}?`,
act: isPause ? "Pause the queue" : "Resume the queue",
isDanger: isPause,
close: close3,
line: command(
"queues",
verb,
row2.queue,
...isPause && reason.value ? ["--reason", reason.value] : []
),
run: async () => {
await post(
`v1/queues/${inPath(row2.queue)}/${verb}`,
isPause ? { reason: reason.value || void 0 } : {}
), await again();
},
children: isPause ? a4($, { children: [
a4("p", { children: [
"Nothing more is leased from ",
a4("code", { children: visible(row2.queue) }),
": ",
row2.ready,
" waiting runs stay where they are. ",
row2.running,
" running ones go on, and so do submits, cancels and deadlines."
] }),
a4("div", { class: "field", children: [
a4("label", { for: "reason", children: "Reason, for people who wonder why nothing runs" }),
a4(
"input",
{
id: "reason",
type: "text",
maxLength: 200,
value: reason.value,
onInput: (event) => {
reason.value = event.currentTarget.value;
}
}
)
] })
] }) : a4("p", { children: [
"Workers get tasks from ",
a4("code", { children: visible(row2.queue) }),
" again at once: ",
row2.ready,
" wait."
] })
}
);
}
function WorkersTab({ only }) {
let query = useQuery(
"workers",
"queues",
(signal) => get("v1/workers", { query: { limit: 1e3 }, signal })
);
return a4(Read, { query, children: (all) => {
let workers = all.workers.filter(
(worker) => only === void 0 || worker.polls.some((poll) => poll.queues.includes(only)) || worker.leases.some((lease) => lease.queue === only)
);
return workers.length === 0 ? a4("section", { class: "card", children: a4(
Empty,
{
title: "No worker polls or holds a lease",
lines: [command("work", "--queue", only ?? "demo", "--exec", "cat")],
children: "A worker appears here with its first poll."
}
) }) : a4(
Card,
{
title: "Workers",
note: `${workers.length}, as ${all.coordinators} ${all.coordinators === 1 ? "coordinator sees" : "coordinators see"} them`,
children: a4("table", { children: [
a4("thead", { children: a4("tr", { children: [
a4("th", { children: "worker" }),
a4("th", { children: "polls for" }),
a4("th", { class: "r", children: "leases" }),
a4("th", { class: "r", children: "oldest lease" }),
a4("th", { class: "r", children: "next expiry" }),
a4("th", { class: "r", children: "last heartbeat" })
] }) }),
a4("tbody", { children: workers.map((worker) => {
let leases = worker.leases, count2 = leases.reduce((sum2, lease) => sum2 + lease.count, 0), least = (times) => times.length === 0 ? "" : roughly(Math.abs(clock.value - Math.min(...times)));
return a4("tr", { children: [
a4("td", { children: a4("a", { "data-row": !0, href: `runs?worker=${encodeURIComponent(worker.workerId)}`, children: visible(worker.workerId) }) }),
a4("td", { class: "wide-cell", children: worker.polls.length === 0 ? a4("span", { class: "muted", children: "busy, or gone" }) : worker.polls.map(
(poll) => visible(
poll.queues.join(", ") + (poll.kinds?.length ? ` (${poll.kinds.join(", ")})` : "")
)
).join("; ") }),
a4("td", { class: "num r", children: count2 }),
a4("td", { class: "num r", children: least(leases.map((lease) => ms(lease.oldestAcquiredAt))) }),
a4("td", { class: "num r", children: least(leases.map((lease) => ms(lease.nextExpiresAt))) }),
a4("td", { class: "num r", children: leases.length === 0 ? "" : roughly(
clock.value - Math.max(...leases.map((lease) => ms(lease.latestHeartbeatAt)))
) })
] }, worker.workerId);
}) })
] })
}
);
} });
}
function LeasesTab({ only }) {
let query = useQuery(
`leases ${only ?? ""}`,
"runs",
(signal) => get("v1/runs", { query: { state: "running", queue: only, limit: 200, children: !0 }, signal })
);
return a4(Read, { query, children: (list) => {
let held = list.runs.filter((run) => run.lease).sort((a5, b3) => ms(a5.lease.expiresAt) - ms(b3.lease.expiresAt));
return held.length === 0 ? a4("section", { class: "card", children: a4(Empty, { title: "No lease is held", children: "A lease says which worker may do and report a task, and until when." }) }) : a4(Card, { title: "Leases", note: `${held.length}${list.nextCursor ? " of more" : ""}, by expiry`, children: a4("table", { children: [
a4("thead", { children: a4("tr", { children: [
a4("th", { children: "run" }),
a4("th", { children: "worker" }),
a4("th", { class: "r", children: "ends in" }),
a4("th", { children: a4("span", { class: "vh", children: "share of the lease" }) })
] }) }),
a4("tbody", { children: held.map((run) => a4(LeaseRow, { run }, run.runId)) })
] }) });
} });
}

// src/model/story.ts
var plain = (text2) => ({ text: text2 }), strong = (text2, tone) => ({ text: text2, style: "strong", tone }), code = (text2) => ({ text: text2, style: "code" }), TOLD_MAX = 2;
function story(run, events, gates, utc) {
let parts = [
...opening(run, events),
...takeovers(events, utc),
...refusals(events),
...approvals(events)
];
return isEnded(run.state) ? parts.push(...ending(run)) : parts.push(...open(gates)), parts;
}
function opening(run, events) {
let count2 = events.attempts.length, attempts2 = count2 === 1 ? "with its first attempt" : `after ${count2} attempts`;
switch (run.state) {
case "succeeded":
return [plain(count2 === 0 ? "Succeeded, recorded once. " : `Succeeded ${attempts2}, recorded once. `)];
case "failed":
return [plain(`Failed ${attempts2}: `), ...error(run)];
case "halted":
return [plain("Halted, and what it recorded is kept: "), ...error(run)];
case "cancelled":
return [plain("Cancelled"), plain(run.cancelReason ? `: “${run.cancelReason}”. ` : ". ")];
case "running": {
let owner = events.attempts.at(-1)?.owner;
return owner ? [plain("Running: "), strong(owner), plain(" holds the lease. ")] : [plain("Running. ")];
}
case "waiting":
return [plain("Suspended: no worker and no process is held while it waits. ")];
case "retry":
return [plain("Between two attempts. ")];
default:
return [plain(count2 === 0 ? "No worker has had it yet. " : "")];
}
}
function error(run) {
return run.error ? [strong(run.error.reason), plain(`, ${run.error.message}. `)] : [];
}
function takeovers(events, utc) {
let lost2 = events.attempts.filter((attempt) => attempt.outcome === "LOST"), parts = lost2.slice(0, TOLD_MAX).flatMap((attempt) => takeover(attempt, events, utc));
return lost2.length > TOLD_MAX && parts.push(plain(`${lost2.length - TOLD_MAX} more attempts were lost. `)), parts;
}
function takeover(attempt, events, utc) {
let next2 = events.attempts.find((other) => other.n === attempt.n + 1), silent = attempt.ended - attempt.lastBeat, when = clockTime(attempt.lastBeat, attempt.lastBeat, utc, !0).slice(0, -2), parts = [
plain("Worker "),
strong(attempt.owner),
plain(` went silent at ${when}; its lease ended ${span(silent)} later`)
];
if (!next2) return [...parts, plain(". ")];
let step = attempt.steps.at(-1);
return parts.push(plain(", and "), strong(next2.owner)), step ? [
...parts,
plain(" went on after the recorded step "),
code(step.key.replace(/#1$/, "")),
plain(". ")
] : [...parts, plain(" took over. ")];
}
function refusals(events) {
let [first, ...more] = events.refused;
if (!first) return [];
let attempt = events.attempts.find((other) => other.n === first.attempt), parts = [
plain(`The ${first.call} of `),
strong(first.worker),
plain(` ${late(first, attempt)}and was `),
strong("refused", "refused")
];
return parts.push(plain(": nothing of it was recorded. ")), more.length > 0 && parts.push(plain(`${more.length} more ${more.length === 1 ? "call was" : "calls were"} refused. `)), parts;
}
function late(refused2, attempt) {
return !attempt?.ended || refused2.at <= attempt.ended ? "came " : `came ${span(refused2.at - attempt.ended)} too late `;
}
function approvals(events) {
return events.waits.filter((wait) => wait.kind === "approval" && wait.to !== void 0).flatMap(approval);
}
function approval(wait) {
let name = wait.name.replace(/#1$/, ""), people = wait.votes.length === 1 ? "One person" : `${wait.votes.length} people`;
return wait.outcome === "APPROVED" ? [plain(`${people} approved `), code(name), plain(". ")] : wait.outcome === "REJECTED" ? [strong("Rejected", "bad"), plain(" by a person: "), code(name), plain(". ")] : [plain("The approval "), code(name), plain(` ended as ${wait.outcome ?? "closed"}. `)];
}
function open(gates) {
return gates.flatMap((gate) => {
let parts = [plain(`${upper(gate.now)}. `)];
return gate.change && parts.push(plain("Next: "), ...marked(gate.change), plain(". ")), parts;
});
}
function ending(run) {
if (run.state !== "halted" && run.state !== "failed") return [];
let steps = run.durable?.steps ?? 0;
return steps > 0 ? [
plain(`${steps} recorded ${steps === 1 ? "step is" : "steps are"} kept: `),
strong("Continue"),
plain(" goes on after them. ")
] : [strong("Retry"), plain(" submits it once more, as a new run.")];
}
function marked(text2) {
return text2.split("`").map((piece, i4) => i4 % 2 === 1 ? code(piece) : plain(piece));
}
var upper = (text2) => text2.charAt(0).toUpperCase() + text2.slice(1);

// src/parts/actions.tsx
var WORDS = {
cancel: "Cancel…",
retry: "Retry…",
continue: "Continue…",
signal: "Send signal…",
resume: "Resume…",
again: "Run again…"
};
function possible(run) {
if (!isEnded(run.state)) {
let actions = ["cancel"];
return run.durable && actions.unshift("signal"), run.durable?.waiting?.diverged && actions.unshift("resume"), actions;
}
let hasRecords = (run.durable?.steps ?? 0) > 0;
return run.state === "succeeded" ? run.input !== void 0 && !run.parent ? ["again"] : [] : hasRecords ? ["continue", "retry"] : ["retry"];
}
function Actions({ run, again }) {
let open2 = useSignal(void 0), props = { run, close: () => {
open2.value = void 0;
}, again };
return a4("span", { class: "actions", "data-actions": !0, children: [
possible(run).map((action, i4) => a4(
"button",
{
type: "button",
class: `btn ${action === "cancel" ? "danger" : i4 === 0 && isEnded(run.state) ? "primary" : ""}`,
onClick: () => {
open2.value = action;
},
children: WORDS[action]
},
action
)),
open2.value === "cancel" && a4(CancelDialog, { ...props }),
open2.value === "retry" && a4(RetryDialog, { ...props }),
open2.value === "continue" && a4(ContinueDialog, { ...props }),
open2.value === "signal" && a4(SignalDialog, { ...props }),
open2.value === "resume" && a4(ResumeDialog, { ...props }),
open2.value === "again" && a4(AgainDialog, { ...props })
] });
}
function Field({ id, label, children }) {
return a4("div", { class: "field", children: [
a4("label", { for: id, children: label }),
children
] });
}
function CancelDialog({ run, close: close3, again }) {
let reason = useSignal(""), isForced = useSignal(!1), children = run.durable?.liveChildren ?? 0;
return a4(
Dialog,
{
title: "Cancel this run?",
act: isForced.value ? "Revoke the lease now" : "Cancel the run",
isDanger: !0,
close: close3,
line: command(
"runs",
"cancel",
run.runId,
...reason.value ? ["--reason", reason.value] : [],
isForced.value && "--force"
),
run: async () => {
await post(`v1/runs/${run.runId}/cancel`, {
reason: reason.value || void 0,
force: isForced.value || void 0
}), await again();
},
children: [
a4("p", { children: [
run.lease ? isForced.value ? a4($, { children: [
"The lease of ",
a4("b", { children: visible(run.lease.owner) }),
" is revoked at once; its report will be refused. What its program does outside goes on until it notices."
] }) : a4($, { children: [
a4("b", { children: visible(run.lease.owner) }),
" is asked to stop and has",
" ",
Math.round((run.cancelGraceMs ?? 3e4) / 1e3),
" s to clean up. Then the lease is revoked."
] }) : a4($, { children: "No worker has it now, so it ends at once as cancelled." }),
children > 0 && ` Its ${children} running children are cancelled too.`,
" This cannot be undone; what was recorded stays."
] }),
a4(Field, { id: "reason", label: "Reason, which the worker is told", children: a4(
"input",
{
id: "reason",
type: "text",
maxLength: 200,
value: reason.value,
onInput: (event) => {
reason.value = event.currentTarget.value;
}
}
) }),
run.lease && a4("label", { class: "tick-box", children: [
a4(
"input",
{
type: "checkbox",
checked: isForced.value,
onChange: (event) => {
isForced.value = event.currentTarget.checked;
}
}
),
" ",
"by force, without asking the worker"
] })
]
}
);
}
function RetryDialog({ run, close: close3 }) {
let hasRecords = (run.durable?.steps ?? 0) > 0;
return a4(
Dialog,
{
title: "Retry this run?",
act: "Submit it once more",
close: close3,
line: command("runs", "retry", run.runId, hasRecords && "--from-scratch"),
run: async (idempotencyKey) => {
let made = await post(
`v1/runs/${run.runId}/retry`,
hasRecords ? { fromScratch: !0 } : {},
{ idempotencyKey }
);
go(`runs/${made.runId}`);
},
children: [
a4("p", { children: [
"A ",
a4("b", { children: "new run" }),
" of ",
a4("code", { children: visible(run.kind) }),
" is submitted to ",
a4("code", { children: visible(run.queue) }),
" ",
"with the same input and settings. This one stays as it is, and names its successor."
] }),
hasRecords && a4("p", { class: "t-halt ink", children: [
"It recorded ",
run.durable.steps,
" steps. A retry does all of them again; “Continue” goes on after them."
] })
]
}
);
}
function ContinueDialog({ run, close: close3 }) {
let tokens = useSignal(""), limit = run.budget?.limits.tokens ?? void 0, isExhausted = run.error?.reason === "BUDGET_EXHAUSTED", isReady = tokens.value === "" ? !isExhausted || limit === void 0 : /^\d{1,15}$/.test(tokens.value);
return a4(
Dialog,
{
title: "Continue this run?",
act: "Continue as a new run",
close: close3,
isReady,
line: command(
"runs",
"continue",
run.runId,
...tokens.value ? ["--budget", `tokens=${tokens.value}`] : []
),
run: async (idempotencyKey) => {
let budget = tokens.value ? { tokens: Number(tokens.value) } : void 0, made = await post(`v1/runs/${run.runId}/fork`, { budget }, { idempotencyKey });
go(`runs/${made.runId}`);
},
children: [
a4("p", { children: [
"A ",
a4("b", { children: "new run" }),
" takes over the ",
run.durable?.steps,
" recorded steps and goes on after them. Nothing that was recorded is done again. This run stays as it is."
] }),
limit !== void 0 && a4(
Field,
{
id: "tokens",
label: `Tokens that it may use; the old limit was ${limit}${isExhausted ? ", and is used up" : ""}`,
children: a4(
"input",
{
id: "tokens",
type: "text",
inputMode: "numeric",
value: tokens.value,
onInput: (event) => {
tokens.value = event.currentTarget.value.trim();
}
}
)
}
)
]
}
);
}
function SignalDialog({ run, close: close3, again }) {
let awaited2 = run.durable?.waiting?.wait?.for.find((item) => item.signal)?.signal ?? "", name = useSignal(awaited2), value = useSignal("null"), problem = invalid(value.value);
return a4(
Dialog,
{
title: "Send a signal?",
act: "Send it",
close: close3,
isReady: name.value !== "" && problem === void 0,
line: command(
"runs",
"signal",
run.runId,
name.value || "NAME",
...value.value === "null" ? [] : ["--data", value.value]
),
run: async (idempotencyKey) => {
await post(
`v1/runs/${run.runId}/signals`,
{ name: name.value, payload: JSON.parse(value.value) },
{ idempotencyKey }
), await again();
},
children: [
a4("p", { children: "The value is recorded for this run and kept until the run takes it. It is taken once." }),
a4(Field, { id: "name", label: awaited2 ? `Name; the run waits for ${awaited2}` : "Name", children: a4(
"input",
{
id: "name",
type: "text",
maxLength: 128,
value: name.value,
onInput: (event) => {
name.value = event.currentTarget.value.trim();
}
}
) }),
a4(Field, { id: "value", label: "Value, as JSON", children: a4(
"textarea",
{
id: "value",
rows: 4,
spellcheck: !1,
value: value.value,
"aria-invalid": problem !== void 0,
onInput: (event) => {
value.value = event.currentTarget.value;
}
}
) }),
problem && a4("p", { class: "t-bad ink", role: "status", children: problem })
]
}
);
}
function ResumeDialog({ run, close: close3, again }) {
return a4(
Dialog,
{
title: "Resume this run?",
act: "Resume it",
close: close3,
line: command("runs", "resume", run.runId),
run: async () => {
await post(`v1/runs/${run.runId}/resume`, {}), await again();
},
children: a4("p", { children: "Its code did not match what it had recorded, so it stopped before doing anything. Resume it after code was deployed that matches; otherwise it stops again at the same place." })
}
);
}
function AgainDialog({ run, close: close3 }) {
let input = useSignal(run.input ?? "null"), problem = invalid(input.value);
return a4(
Dialog,
{
title: "Run it again?",
act: "Submit a new run",
close: close3,
isReady: problem === void 0,
line: command("submit", run.kind, "--queue", run.queue, "--input", input.value),
run: async (idempotencyKey) => {
let made = await post(
"v1/runs",
{
kind: run.kind,
queue: run.queue,
input: JSON.parse(input.value),
labels: run.labels,
priority: run.priority
},
{ idempotencyKey }
);
go(`runs/${made.runId}`);
},
children: [
a4("p", { children: [
"A ",
a4("b", { children: "new run" }),
" of ",
a4("code", { children: visible(run.kind) }),
" is submitted to ",
a4("code", { children: visible(run.queue) }),
" ",
"with this input and the same labels. It does its work again, outside too."
] }),
a4(Field, { id: "input", label: "Input, as JSON", children: a4(
"textarea",
{
id: "input",
rows: 8,
spellcheck: !1,
value: input.value,
"aria-invalid": problem !== void 0,
onInput: (event) => {
input.value = event.currentTarget.value;
}
}
) }),
problem && a4("p", { class: "t-bad ink", role: "status", children: problem })
]
}
);
}
function invalid(text2) {
try {
JSON.parse(text2);
} catch (error2) {
return error2 instanceof Error ? error2.message : "this is no JSON";
}
if ((text2.replaceAll(/"(?:[^"\\]|\\.)*"/g, "").match(/\d{16,}/g) ?? []).some((digits) => !Number.isSafeInteger(Number(digits))))
return "a number beyond 2^53 would be rounded here: use the command line";
}

// src/parts/sentence.tsx
function Sentence({ parts }) {
return a4($, { children: parts.map((part, i4) => {
let words2 = visible(part.text);
return part.style === "code" ? a4("code", { children: words2 }, i4) : part.style === "strong" ? a4("b", { class: part.tone ? `t-${part.tone} ink` : "", children: words2 }, i4) : a4("span", { children: words2 }, i4);
}) });
}

// src/pages/run-tabs.tsx
function StepsTab({ steps }) {
return steps.length === 0 ? a4("section", { class: "card", children: a4(Empty, { title: "No recorded steps", children: "A durable function records what it has done. This run is not one, or has recorded nothing yet." }) }) : a4(Card, { title: "Steps", note: "what the run has recorded; a new attempt replays it instead of doing it again", children: a4("table", { children: [
a4("thead", { children: a4("tr", { children: [
a4("th", { class: "r", children: "number" }),
a4("th", { children: "key" }),
a4("th", { children: "outcome" }),
a4("th", { children: "attempt" }),
a4("th", { children: "recorded" }),
a4("th", { children: "spent" }),
a4("th", { children: "result" })
] }) }),
a4("tbody", { children: steps.map((step) => a4(StepRow, { step }, step.number)) })
] }) });
}
function StepRow({ step }) {
let isOpen = useSignal(!1), spend = step.spend ? [
step.spend.tokens && `${step.spend.tokens} tokens`,
step.spend.toolCalls && `${step.spend.toolCalls} calls`
].filter(Boolean).join(", ") : "";
return a4($, { children: [
a4("tr", { children: [
a4("td", { class: "num r", children: step.number }),
a4("td", { class: "strong", children: visible(step.key) }),
a4("td", { children: a4(Mark, { look: outcomeLook(step.outcome === "STARTED" ? void 0 : step.outcome) }) }),
a4("td", { class: "num", children: step.attempt ?? "–" }),
a4("td", { children: a4(Time, { at: step.recordedAt }) }),
a4("td", { class: "muted", children: spend }),
a4("td", { class: "wide-cell", children: [
step.error && a4("span", { class: "t-bad ink", children: visible(step.error.message) }),
step.result !== void 0 && a4(
"button",
{
type: "button",
class: "link mono clip",
"aria-expanded": isOpen.value,
onClick: () => {
isOpen.value = !isOpen.value;
},
children: [
visible(step.result.slice(0, 90)),
step.result.length > 90 ? "…" : ""
]
}
)
] })
] }),
isOpen.value && step.result !== void 0 && a4("tr", { children: a4("td", { colSpan: 7, children: a4(PayloadView, { text: step.result, label: `result of ${step.key}` }) }) })
] });
}
function PayloadsTab({ run }) {
return a4("div", { class: "two", children: [
a4(Card, { title: "Input", note: run.input === void 0 ? "" : "as it was submitted", children: run.input === void 0 ? a4("p", { class: "pad-x muted", children: run.plan ? "The steps of the plan have inputs of their own." : "None." }) : a4(PayloadView, { text: run.input, label: "input" }) }),
a4(Card, { title: "Output", note: run.output === void 0 ? "" : "as it was reported", children: run.output === void 0 ? a4("p", { class: "pad-x muted", children: run.completedAt ? "None." : "The run has not ended." }) : a4(PayloadView, { text: run.output, label: "output" }) }),
run.error && a4(
Card,
{
title: a4("span", { class: "t-bad ink", children: visible(run.error.reason) }),
note: run.error.category ?? "",
class: "whole",
children: [
a4("p", { class: "pad-x", children: visible(run.error.message) }),
run.error.stackTrace && a4("pre", { class: "pad-x stack", children: visible(run.error.stackTrace) })
]
}
)
] });
}
function EffectsTab2({ effects, run }) {
return effects.length === 0 ? a4("section", { class: "card", children: a4(Empty, { title: "No effects", children: [
"An effect is a call to another system that is decided with a step and delivered until it arrived.",
" ",
visible(run.kind),
" has declared none."
] }) }) : a4(Card, { title: "Effects", note: "decided with the run's records, delivered in order", children: a4("table", { children: [
a4("thead", { children: a4("tr", { children: [
a4("th", { children: "state" }),
a4("th", { children: "type" }),
a4("th", { children: "endpoint" }),
a4("th", { class: "r", children: "tries" }),
a4("th", { children: "decided" }),
a4("th", { children: "settled" }),
a4("th", { children: "last answer" })
] }) }),
a4("tbody", { children: effects.map((effect) => a4("tr", { children: [
a4("td", { children: a4(Mark, { look: effectLook(effect.state) }) }),
a4("td", { class: "strong", children: visible(effect.type) }),
a4("td", { children: visible(effect.endpoint) }),
a4("td", { class: "num r", children: effect.tries }),
a4("td", { children: a4(Time, { at: effect.decidedAt }) }),
a4("td", { children: a4(Time, { at: effect.settledAt }) }),
a4("td", { class: "wide-cell", children: [
effect.lastTry?.status ?? "",
" ",
visible(effect.lastTry?.note ?? "")
] })
] }, effect.effectId)) })
] }) });
}
function ChildrenTab({ run }) {
let query = useQuery(
`children ${run.runId}`,
"run",
(signal) => get(`v1/runs/${run.runId}/children`, { query: { limit: 200 }, signal })
), list = query.data.value;
return list ? list.children.length === 0 ? a4("section", { class: "card", children: a4(Empty, { title: "No children", children: "This run has started no other tasks." }) }) : a4(Card, { title: "Children", note: "tasks that the run has started, in order", children: a4("table", { children: [
a4("thead", { children: a4("tr", { children: [
a4("th", { children: "state" }),
a4("th", { children: "key" }),
a4("th", { children: "kind" }),
a4("th", { children: "queue" }),
a4("th", { children: "started" })
] }) }),
a4("tbody", { children: list.children.map((child) => a4("tr", { children: [
a4("td", { children: a4(Mark, { look: stateLook(child.state) }) }),
a4("td", { children: a4("a", { "data-row": !0, href: `runs/${runIdOf(child.taskId)}`, children: visible(child.key) }) }),
a4("td", { children: visible(child.kind) }),
a4("td", { children: visible(child.queue) }),
a4("td", { children: a4(Time, { at: child.startedAt }) })
] }, child.taskId)) })
] }) }) : query.problem.value ? a4(Failed, { problem: query.problem.value, again: query.again }) : a4(Loading, {});
}
function RecordTab({ run }) {
let query = useQuery(
`record ${run.runId}`,
void 0,
(signal) => get(`v1/runs/${run.runId}/record`, { query: { limit: 200 }, signal })
), record = query.data.value;
return record ? a4($, { children: [
a4(
Card,
{
title: "Record",
note: "what is sealed about this run, and what this browser computed again from the payloads it shows",
children: a4("dl", { class: "kv pad-b", children: [
a4(
Check,
{
name: "input",
claimed: record.inputDigest,
text: run.plan ? void 0 : run.input,
because: run.plan ? "the run has a plan: its digest covers the steps" : "the input is not here any more"
}
),
record.outputDigest && a4(
Check,
{
name: "output",
claimed: record.outputDigest,
text: run.output,
because: "the output is not here any more"
}
),
a4("div", { children: [
a4("dt", { children: "record" }),
a4("dd", { children: [
a4(Digest, { value: record.digest }),
" ",
a4("span", { class: "muted", children: [
"over ",
record.decisions ?? "all",
" decisions; ",
a4("code", { children: [
"tenure prove ",
run.runId
] }),
" checks the chain and its seal"
] })
] })
] }),
a4("div", { children: [
a4("dt", { children: "took" }),
a4("dd", { children: span(record.durationMs) })
] })
] })
}
),
a4(Card, { title: "Attempts", note: "as they are sealed", children: a4("table", { tabIndex: 0, children: [
a4("thead", { children: a4("tr", { children: [
a4("th", { class: "r", children: "attempt" }),
a4("th", { children: "outcome" }),
a4("th", { children: "owner" }),
a4("th", { class: "r", children: "fence" }),
a4("th", { children: "granted" }),
a4("th", { class: "r", children: "held for" }),
a4("th", { children: "reason" }),
a4("th", { children: "report" })
] }) }),
a4("tbody", { children: record.attempts.map((attempt) => a4("tr", { children: [
a4("td", { class: "num r", children: attempt.attempt }),
a4("td", { children: a4(Mark, { look: outcomeLook(attempt.outcome) }) }),
a4("td", { children: visible(attempt.owner) }),
a4("td", { class: "num r", title: String(attempt.fence), children: fence(attempt.fence) }),
a4("td", { children: a4(Time, { at: attempt.grantedAt }) }),
a4("td", { class: "num r", children: span(ms(attempt.endedAt) - ms(attempt.grantedAt)) }),
a4("td", { class: "muted", children: attempt.reason ?? "" }),
a4("td", { children: attempt.reportDigest ? a4(Digest, { value: attempt.reportDigest, short: !0 }) : a4("span", { class: "muted", children: "none" }) })
] }, attempt.attempt)) })
] }) })
] }) : query.problem.value ? a4(Failed, { problem: query.problem.value, again: query.again }) : a4(Loading, { rows: 8 });
}
function Check({
name,
claimed,
text: text2,
because
}) {
let computed = text2 === void 0 ? void 0 : payloadDigest(text2), isSame = computed === claimed;
return a4("div", { children: [
a4("dt", { children: name }),
a4("dd", { children: [
a4(Digest, { value: claimed }),
" ",
computed === void 0 && a4("span", { class: "muted", children: [
"not computed here: ",
because
] }),
computed !== void 0 && isSame && a4("span", { class: "t-ok ink check", children: [
a4(Glyph, { name: "ok" }),
" computed here, the same"
] }),
computed !== void 0 && !isSame && a4("strong", { class: "t-bad ink check", role: "alert", children: [
a4(Glyph, { name: "bad" }),
" the payload that is shown has another digest: ",
a4(Digest, { value: computed })
] })
] })
] });
}
function RawTab({ run }) {
return a4(Card, { title: "Raw", note: "the answer of the server; payloads as text", children: a4(PayloadView, { text: JSON.stringify(run), label: "run" }) });
}

// src/timeline/scale.ts
function scale(from, to, busy, points, { left: left2, right, isTrue = !1 }) {
let whole = Math.max(1, to - from), gaps = isTrue ? [] : idleGaps(from, to, busy, points, whole), folds = placed(gaps, from, to, left2, right), x3 = projection(from, to, folds, left2, right), set = folds.map(([a5, b3]) => ({ from: a5, to: b3, x0: x3(a5), x1: x3(b3) }));
return { x: x3, folds: set, ticks: ticks(from, to, set, x3) };
}
function idleGaps(from, to, busy, points, whole) {
let instants = [from, to, ...busy.flat(), ...points].filter((t4) => t4 >= from && t4 <= to).sort((a5, b3) => a5 - b3), gaps = [];
for (let i4 = 1; i4 < instants.length; i4++) {
let [a5, b3] = [instants[i4 - 1], instants[i4]];
!busy.some(([f5, t4]) => f5 < b3 && t4 > a5) && b3 - a5 > Math.max(0.15 * whole, 1e3) && gaps.push([a5, b3]);
}
return gaps.sort(([a5, b3], [c4, d4]) => d4 - c4 - (b3 - a5)).slice(0, 4).sort(([a5], [c4]) => a5 - c4);
}
function placed(gaps, from, to, left2, right) {
let pixels = right - left2 - 92 * gaps.length, margins = 88 * gaps.length, linear = to - from - gaps.reduce((sum2, [a5, b3]) => sum2 + b3 - a5, 0), margin = 44 * (Math.max(linear, (to - from) * 1e-4) / Math.max(pixels - margins, pixels / 3));
return gaps.map(([a5, b3]) => {
let cut3 = Math.min(margin, (b3 - a5) * 0.2);
return [a5 + cut3, b3 - cut3];
});
}
function projection(from, to, folds, left2, right) {
let linear = to - from - folds.reduce((sum2, [a5, b3]) => sum2 + b3 - a5, 0), foldPx = Math.min(92, (right - left2) / (2 * Math.max(1, folds.length))), perMs = (right - left2 - foldPx * folds.length) / Math.max(1e-9, linear);
return (time) => {
let t4 = Math.min(Math.max(time, from), to), px = left2, at = from;
for (let [a5, b3] of folds) {
if (t4 <= a5) break;
if (px += (a5 - at) * perMs, t4 < b3) return Math.min(right, px + foldPx * (t4 - a5) / (b3 - a5));
px += foldPx, at = b3;
}
return Math.min(right, px + (t4 - at) * perMs);
};
}
var NICE = [1, 2, 5, 10, 20, 50, 100, 200, 500], STEPS = [
...NICE,
...[1, 2, 5, 10, 15, 30].map((s4) => s4 * 1e3),
...[1, 2, 5, 10, 15, 30].map((m5) => m5 * 6e4),
...[1, 2, 3, 6, 12, 24, 48, 96, 240, 720].map((h5) => h5 * 36e5)
];
function ticks(from, to, folds, x3) {
let edges = [from, ...folds.flatMap((fold) => [fold.from, fold.to]), to], found = [];
for (let i4 = 0; i4 < edges.length; i4 += 2) {
let [a5, b3] = [edges[i4], edges[i4 + 1]], width = x3(b3) - x3(a5);
if (b3 <= a5 || width < 8) continue;
let step = STEPS.find((step2) => width * step2 / (b3 - a5) >= 84) ?? STEPS.at(-1), first = from + Math.ceil((a5 - from) / step) * step;
first > b3 && (first = (a5 + b3) / 2);
for (let t4 = first; t4 <= b3; t4 += step) found.push({ at: t4 - from, x: x3(t4), step });
}
let isFree = (tick, i4, all) => !folds.some((fold) => tick.x > fold.x0 - 34 && tick.x < fold.x1 + 34) && (i4 === 0 || tick.x - all[i4 - 1].x >= 84 * 0.7);
return found.filter(isFree);
}

// src/timeline/layout.ts
var shortKey = (keyId) => keyId.slice(0, 8), NAME_MAX = 14, GUTTER = 176, TAIL = 150, LANES_MAX = 20, LETTER = 6.1, NAMES_MAX = 40;
function layout(events, { width, isTrue, ...words2 }) {
let attempts2 = events.attempts.slice(-LANES_MAX), waits = events.waits.slice(0, LANES_MAX), children = events.children.slice(0, LANES_MAX), effects = events.effects.slice(0, LANES_MAX), hidden = events.attempts.length + events.waits.length + events.children.length + events.effects.length - (attempts2.length + waits.length + children.length + effects.length), axis2 = scaleOf(events, Math.max(width, GUTTER + TAIL + 120), isTrue ?? !1), drawer = new Drawer(events, axis2);
for (let attempt of attempts2) drawer.attempt(attempt);
drawer.takeovers(attempts2), drawer.refusals(attempts2);
for (let wait of waits) drawer.wait(wait, attempts2, words2);
for (let child of children) drawer.child(child, attempts2);
for (let effect of effects) drawer.effect(effect, attempts2);
for (let lane of drawer.lanes)
lane.labels = withoutCollisions(lane, Math.max(width, GUTTER + TAIL + 120));
return {
width,
left: GUTTER,
lanes: drawer.lanes,
links: drawer.links,
folds: axis2.folds,
ticks: axis2.ticks,
hidden
};
}
function scaleOf(events, width, isTrue) {
let busy = [
...events.attempts.map((a5) => [a5.granted, a5.ended ?? events.to]),
...events.children.map((c4) => [c4.from, c4.to ?? events.to]),
...events.effects.filter((e4) => e4.tries.length > 0).map((e4) => [e4.tries[0].at, e4.tries.at(-1).at])
], points = [
...events.refused.map((r4) => r4.at),
...events.signals.map((s4) => s4.at),
...events.waits.flatMap((w5) => [
w5.from,
...w5.to === void 0 ? [] : [w5.to],
...w5.votes.map((v4) => v4.at)
]),
...events.effects.flatMap((e4) => e4.tries.map((t4) => t4.at))
], last = Math.max(events.to, ...busy.map(([, t4]) => t4), ...points);
return scale(events.from, last, busy, points, { left: GUTTER + 10, right: width - TAIL, isTrue });
}
var seconds = (from, to) => span(Math.max(0, to - from)), shortStep = (key2) => key2.replace(/#1$/, ""), Drawer = class {
constructor(events, axis2) {
this.events = events;
this.axis = axis2;
}
events;
axis;
lanes = [];
links = [];
attempt(attempt) {
let { x: x3 } = this.axis, { events } = this, look2 = outcomeLook(attempt.outcome), end2 = attempt.ended ?? events.to, isLost = attempt.outcome === "LOST" || attempt.outcome === "UNDELIVERED", isSilent = attempt.ended === void 0 && attempt.expires < events.to, alive = isLost || isSilent ? Math.min(attempt.lastBeat, end2) : end2, start = Math.min(attempt.started ?? attempt.granted, alive), lane = this.lane(`attempt-${attempt.n}`, `${attempt.n}  ${attempt.owner}`, look2.word, look2), note = reasonNote(attempt);
if (note && (lane.note = note), lane.marks.push({
x: x3(attempt.granted),
glyph: "grant",
tone: "run",
title: `lease granted to ${attempt.owner}`
}), start > attempt.granted && lane.bars.push(bar(x3(attempt.granted), x3(start), "granted", "run")), lane.bars.push({
...bar(x3(start), Math.max(x3(alive), x3(start) + 3), "work", "run"),
isOpen: attempt.ended === void 0 && !isSilent
}), isLost || isSilent) {
let from = Math.max(x3(alive), x3(start) + 3);
lane.bars.push(bar(from, Math.max(x3(end2), from + 2), "silence", "retry")), lane.labels.push({
x: (from + x3(end2)) / 2,
text: `${seconds(alive, end2)} silent`,
anchor: "middle",
row: "above",
tone: "retry",
isStrong: !0,
rank: 6
});
}
let leaseEnd = attempt.ended === void 0 ? Math.min(attempt.expires, events.to) : end2;
lane.bars.push(bar(x3(attempt.granted), Math.max(x3(leaseEnd), x3(attempt.granted) + 3), "lease", "queue")), attempt.lastBeat > attempt.granted && lane.marks.push({
x: x3(attempt.lastBeat),
glyph: "beat",
tone: "queue",
title: "last renewal of the lease"
});
for (let step of attempt.steps)
lane.marks.push({
x: x3(step.at),
glyph: "step",
tone: step.isFailed ? "bad" : "run",
id: `entry-${step.n}`,
title: `${step.key} recorded`
}), attempt.steps.length <= NAMES_MAX && lane.labels.push({
x: x3(step.at),
text: shortStep(step.key),
anchor: "middle",
row: "above",
rank: 1
});
lane.marks.push(this.closing(attempt, look2, end2));
}
closing(attempt, look2, end2) {
let x3 = this.axis.x(end2), id = `attempt-${attempt.n}`, title = `attempt ${attempt.n} of ${attempt.owner}: ${look2.word}`;
return attempt.ended === void 0 ? { x: x3, glyph: "run", tone: "run", id, title } : attempt.outcome === "LOST" || attempt.outcome === "UNDELIVERED" ? { x: x3, glyph: "expiry", tone: "retry", id, title } : attempt.outcome === "SUSPENDED" ? { x: x3, glyph: "stop", tone: "wait", id, title } : { x: x3, glyph: look2.glyph, tone: look2.tone, id, title };
}
takeovers(attempts2) {
for (let i4 = 1; i4 < attempts2.length; i4++) {
let [before, after] = [attempts2[i4 - 1], attempts2[i4]];
if (!(before.outcome === "LOST" || before.outcome === "UNDELIVERED") || before.ended === void 0) continue;
let toX = this.axis.x(after.granted);
this.links.push({
style: "takeover",
fromLane: i4 - 1,
fromX: this.axis.x(before.ended),
toLane: i4,
toX
});
let isOther = after.owner !== before.owner, lane = this.lanes[i4], words2 = isOther ? `${after.owner} takes over` : `${after.owner} again`;
lane.labels.push({
x: toX - 22,
text: words2,
anchor: "end",
row: "level",
tone: "retry",
isStrong: !0,
rank: 8
}), lane.labels.push({
x: toX - 22,
text: `fence ${fence(before.fence)} → ${fence(after.fence)}`,
anchor: "end",
row: "below",
rank: 5
});
}
}
refusals(attempts2) {
this.events.refused.forEach((refused2, i4) => {
let at = attempts2.findIndex((attempt2) => attempt2.n === refused2.attempt), attempt = attempts2[at];
if (!attempt) return;
let lane = this.lanes[at], start = this.axis.x(attempt.ended ?? refused2.at) + 3, x3 = Math.max(this.axis.x(refused2.at), start + 36 + 34 * earlier(this.events, i4));
lane.bars.push(bar(start, x3 - 15, "late", "refused")), lane.marks.push({
x: x3,
glyph: "refused",
tone: "refused",
id: `refused-${i4}`,
title: `late ${refused2.call} refused: ${refused2.error}`
}), lane.labels.push({
x: x3 + 21,
text: `late ${refused2.call} refused`,
anchor: "start",
row: "level",
tone: "refused",
isStrong: !0,
rank: 9
}), lane.labels.push({ x: x3 + 21, text: refused2.error, anchor: "start", row: "below", rank: 4 });
});
}
wait(wait, attempts2, { approvalTitle, nameOf: nameOf2 = shortKey }) {
let { x: x3 } = this.axis, end2 = wait.to ?? this.events.to, title = {
approval: "Approval",
signal: "Signal",
sleep: "Sleep",
child: "Children",
other: "Wait"
}[wait.kind], look2 = waitLook(wait), isNamed = wait.kind !== "sleep", lane = this.lane(
`wait-${wait.entry}`,
title,
isNamed ? wait.name.replace(/#1$/, "") : look2.word,
look2
), words2 = (wait.approval === void 0 ? void 0 : approvalTitle?.(wait.approval)) ?? (wait.kind === "sleep" ? seconds(wait.from, end2) : wait.to === void 0 ? `open since ${seconds(wait.from, end2)}` : void 0), free = x3(wait.votes[0]?.at ?? end2) - x3(wait.from) - 26, fits = words2 !== void 0 && words2.length * LETTER * 1.06 <= free;
lane.bars.push({
...bar(x3(wait.from), Math.max(x3(end2), x3(wait.from) + 6), "wait", "wait"),
isOpen: wait.to === void 0,
text: fits ? words2 : void 0
}), words2 !== void 0 && !fits && wait.kind === "approval" && (lane.note = words2);
for (let vote of wait.votes) {
let [glyph, tone] = vote.isApproval ? ["ok", "ok"] : ["bad", "bad"];
lane.marks.push({
x: x3(vote.at),
glyph,
tone,
id: `entry-${vote.n}`,
title: `${vote.isApproval ? "approved" : "rejected"} by ${nameOf2(vote.by)}`
}), lane.labels.push({
x: x3(vote.at),
text: nameOf2(vote.by).slice(0, NAME_MAX),
anchor: "middle",
row: "above",
rank: 2
});
}
for (let signal of this.events.signals.filter(
(s4) => wait.kind === "signal" && s4.at >= wait.from && s4.at <= end2
))
lane.marks.push({
x: x3(signal.at),
glyph: "step",
tone: "wait",
id: `entry-${signal.n}`,
title: `signal ${signal.name}`
});
let next2 = attempts2.findIndex((attempt) => wait.to !== void 0 && attempt.granted >= wait.to);
next2 >= 0 && this.links.push({
style: "resume",
fromLane: this.lanes.length - 1,
fromX: x3(end2),
toLane: next2,
toX: x3(attempts2[next2].granted)
}), wait.votes.length === 0 && wait.to !== void 0 && lane.marks.push({
x: x3(end2),
glyph: look2.glyph,
tone: look2.tone,
id: `entry-${wait.entry}`,
title: look2.word
});
}
child(child, attempts2) {
let { x: x3 } = this.axis, end2 = child.to ?? this.events.to, look2 = stateLook(child.state ?? "running"), lane = this.lane(`child-${child.entry}`, child.key.replace(/#1$/, ""), `child, ${look2.word}`, look2);
child.taskId && (lane.href = `runs/${child.taskId.replace(/^task_/, "run_")}`), lane.bars.push({
...bar(x3(child.from), Math.max(x3(end2), x3(child.from) + 3), "work", "run"),
isOpen: child.to === void 0
}), lane.marks.push({
x: x3(end2),
glyph: look2.glyph,
tone: look2.tone,
id: `entry-${child.entry}`,
title: `child ${child.key}: ${look2.word}`
}), this.cause(child.from, attempts2, x3(child.from));
}
effect(effect, attempts2) {
let { x: x3 } = this.axis, look2 = effectLook(effect.state), lane = this.lane(`effect-${effect.id}`, effect.type, `effect to ${effect.endpoint}`, look2), first = effect.tries[0]?.at ?? effect.from, last = effect.tries.at(-1)?.at ?? this.events.to;
effect.tries.length > 1 && lane.bars.push(bar(x3(first), x3(last), "backoff", "queue"));
for (let attempt of effect.tries) {
let isDone = attempt.isLast && effect.state === "delivered";
lane.marks.push({
x: x3(attempt.at),
glyph: isDone ? "ok" : "bad",
tone: isDone ? "ok" : "bad",
id: `effect-${effect.id}`,
title: `try of ${effect.type}: ${attempt.status ?? "no answer"}`
}), lane.labels.push({
x: x3(attempt.at),
text: String(attempt.status ?? "–"),
anchor: "middle",
row: "above",
tone: isDone ? "ok" : "bad",
rank: 3
});
}
effect.tries.length === 0 && lane.marks.push({
x: x3(effect.from),
glyph: look2.glyph,
tone: look2.tone,
id: `effect-${effect.id}`,
title: `${effect.type}: ${look2.word}`
}), this.cause(effect.from, attempts2, x3(first));
}
/** A grey line from the attempt that worked at an instant to the lane that was added last. */
cause(at, attempts2, toX) {
let index = attempts2.findIndex(
(attempt) => attempt.granted <= at && (attempt.ended ?? Number.POSITIVE_INFINITY) >= at
);
index >= 0 && this.links.push({
style: "cause",
fromLane: index,
fromX: this.axis.x(at),
toLane: this.lanes.length - 1,
toX
});
}
lane(id, title, note, look2) {
let lane = { id, title, note, look: look2, bars: [], marks: [], labels: [] };
return this.lanes.push(lane), lane;
}
}, bar = (x0, x1, style, tone) => ({
x0,
x1: Math.max(x0, x1),
style,
tone
});
function earlier(events, i4) {
return events.refused.slice(0, i4).filter((other) => other.attempt === events.refused[i4].attempt).length;
}
function reasonNote(attempt) {
if (attempt.outcome === "FAILED" && attempt.message) return attempt.message;
if (attempt.outcome === "REVOKED" && attempt.reason)
return attempt.reason.toLowerCase().replaceAll("_", " ");
}
function waitLook(wait) {
return wait.to === void 0 ? { tone: "wait", glyph: "wait", word: "open" } : wait.outcome === "REJECTED" ? { tone: "bad", glyph: "bad", word: "rejected" } : wait.outcome === "EXPIRED" ? { tone: "halt", glyph: "halt", word: "expired" } : wait.outcome === "WITHDRAWN" ? { tone: "queue", glyph: "cancel", word: "withdrawn" } : { tone: "ok", glyph: "ok", word: wait.kind === "approval" ? "approved" : "over" };
}
function extent(label) {
let width = label.text.length * (label.isStrong ? LETTER * 1.06 : LETTER);
return label.anchor === "start" ? [label.x, label.x + width] : label.anchor === "end" ? [label.x - width, label.x] : [label.x - width / 2, label.x + width / 2];
}
function withoutCollisions(lane, width) {
let kept = [], byRank = [...lane.labels].sort((a5, b3) => b3.rank - a5.rank || a5.x - b3.x);
for (let label of byRank) {
let [a5, b3] = extent(label), isInside = a5 >= GUTTER - 4 && b3 <= width, isFree = kept.every((other) => {
let [c4, d4] = extent(other);
return other.row !== label.row || b3 + 4 <= c4 || a5 >= d4 + 4;
}), bars = lane.bars.filter((bar2) => bar2.style !== "lease" && bar2.style !== "late"), covers = label.row === "level" && bars.some((bar2) => a5 < bar2.x1 + 2 && b3 > bar2.x0 - 2);
isInside && isFree && !covers && kept.push(label);
}
return kept;
}

// src/timeline/render.tsx
var AXIS = 30, LANE = 46, WIDTH_MIN = 760, laneY = (i4) => AXIS + i4 * LANE + 22;
function Timeline({ events, isTrue, selected, choose, approvalTitle, nameOf: nameOf2 }) {
let box = T2(null), width = useSignal(1100);
A2(() => {
let measure = () => {
width.value = Math.max(WIDTH_MIN, box.current?.clientWidth ?? 1100);
};
measure();
let observer = new ResizeObserver(measure);
return box.current && observer.observe(box.current), () => observer.disconnect();
}, []);
let drawing = layout(events, { width: width.value, isTrue, approvalTitle, nameOf: nameOf2 }), height = AXIS + drawing.lanes.length * LANE + 6;
return (
// biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
a4("section", { class: "timeline", ref: box, tabIndex: 0, "aria-label": "Timeline", children: [
a4(
"svg",
{
width: drawing.width,
height,
viewBox: `0 0 ${drawing.width} ${height}`,
role: "group",
"aria-label": summary(events),
children: [
a4(Patterns, {}),
a4(Grid, { drawing, height }),
drawing.links.map((link, i4) => link.style === "cause" ? a4(LinkView, { link }, i4) : null),
drawing.lanes.map((lane, i4) => a4(LaneView, { lane, y: laneY(i4), selected, choose }, lane.id)),
drawing.links.map((link, i4) => link.style === "cause" ? null : a4(LinkView, { link }, i4))
]
}
),
drawing.hidden > 0 && a4("p", { class: "muted", children: [
drawing.hidden,
" more lanes are not drawn; the history has all of them."
] })
] })
);
}
function summary(events) {
let lost2 = events.attempts.filter((attempt) => attempt.outcome === "LOST").length;
return `Timeline: ${[
`${events.attempts.length} attempts`,
`${lost2} lost`,
`${events.refused.length} refused reports`,
`${events.waits.length} waits`
].join(", ")}`;
}
function Patterns() {
return a4("defs", { children: a4("pattern", { id: "silence", width: "7", height: "7", patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)", children: [
a4("rect", { width: "7", height: "7", class: "hatch-ground" }),
a4("rect", { width: "2", height: "7", class: "hatch-line" })
] }) });
}
function zigzag(x3, top, bottom) {
let path2 = `M${x3} ${top}`;
for (let y5 = top, side = 1; y5 < bottom; y5 += 6, side = -side)
path2 += `l${side * 3} ${Math.min(6, bottom - y5)}`;
return path2;
}
function Grid({ drawing, height }) {
let { folds, ticks: ticks2, width, lanes } = drawing;
return a4("g", { "aria-hidden": "true", children: [
folds.map((fold) => a4("g", { children: [
a4("rect", { class: "fold", x: fold.x0, y: AXIS, width: fold.x1 - fold.x0, height: height - AXIS - 4 }),
a4("path", { class: "fold-edge", d: zigzag(fold.x0, AXIS, height - 4) }),
a4("path", { class: "fold-edge", d: zigzag(fold.x1, AXIS, height - 4) }),
a4("text", { class: "tick strong", x: (fold.x0 + fold.x1) / 2, y: "19", "text-anchor": "middle", children: span(fold.to - fold.from) })
] }, fold.from)),
ticks2.map((tick) => a4("g", { children: [
a4("path", { class: "tick-line", d: `M${tick.x} ${AXIS}V${height - 4}` }),
a4("text", { class: "tick m", x: tick.x, y: "19", "text-anchor": "middle", children: axisTime(tick.at, tick.step) })
] }, tick.at)),
Array.from({ length: lanes.length + 1 }, (_3, i4) => a4("path", { class: "lane-line", d: `M0 ${AXIS + i4 * LANE + 0.5}H${width}` }, i4))
] });
}
function LaneView({ lane, y: y5, selected, choose }) {
let title = a4("text", { class: "lane-title", x: "0", y: y5 - 1, children: cut2(visible(lane.title), 19) });
return a4("g", { children: [
lane.href ? a4("a", { href: lane.href, children: title }) : title,
a4("text", { class: `lane-note t-${lane.look.tone}`, x: "0", y: y5 + 14, children: cut2(visible(lane.note), 23) }),
a4("g", { class: `t-${lane.look.tone} ink`, children: a4(GlyphAt, { name: lane.look.glyph, x: GUTTER - 27, y: y5 + 1, size: 14 }) }),
lane.bars.map((bar2, i4) => a4(BarView, { bar: bar2, y: y5 }, i4)),
lane.marks.map((mark, i4) => a4(
MarkView,
{
mark,
y: y5,
isSelected: mark.id !== void 0 && mark.id === selected,
choose
},
i4
)),
lane.labels.map((label) => a4(LabelView, { label, y: y5 }, `${label.row}${label.x}${label.text}`))
] });
}
var cut2 = (text2, max) => text2.length > max ? `${text2.slice(0, max - 1)}…` : text2;
function BarView({ bar: bar2, y: y5 }) {
let width = Math.max(0, bar2.x1 - bar2.x0), line2 = `M${bar2.x0} ${y5}H${bar2.x1}`;
switch (bar2.style) {
case "granted":
return a4("path", { class: "granted", d: line2 });
case "backoff":
return a4("path", { class: "cause", d: line2 });
case "late":
return a4("path", { class: "late", d: line2 });
case "lease":
return a4("rect", { class: "lease", x: bar2.x0, y: y5 + 12, width, height: "4", rx: "2" });
case "silence":
return a4("rect", { class: "silence", x: bar2.x0, y: y5 - 8, width, height: "16" });
case "wait":
return a4("g", { children: [
a4(
"rect",
{
class: `wait-bar ${bar2.isOpen ? "open" : ""}`,
x: bar2.x0,
y: y5 - 8,
width,
height: "16",
rx: "8"
}
),
bar2.text && a4("text", { class: "wait-text", x: bar2.x0 + 12, y: y5 + 4, children: visible(bar2.text) })
] });
default:
return a4(
"rect",
{
class: `work ${bar2.isOpen ? "open" : ""}`,
x: bar2.x0,
y: y5 - 8,
width,
height: "16",
rx: "3"
}
);
}
}
function MarkView({
mark,
y: y5,
isSelected,
choose
}) {
let { id } = mark, shape = a4(MarkShape, { mark, y: y5 });
if (id === void 0)
return a4("g", { class: `t-${mark.tone} ink`, children: [
a4("title", { children: mark.title }),
shape
] });
let onKey = (event) => {
event.key !== "Enter" && event.key !== " " || (event.preventDefault(), choose(id));
};
return a4(
"g",
{
class: `choice t-${mark.tone} ink`,
role: "button",
tabIndex: 0,
"aria-pressed": isSelected,
"aria-label": mark.title,
onClick: () => choose(id),
onKeyDown: onKey,
children: [
a4("title", { children: mark.title }),
a4("rect", { class: isSelected ? "chosen" : "hit", x: mark.x - 15, y: y5 - 15, width: "30", height: "30", rx: "7" }),
shape
]
}
);
}
function MarkShape({ mark, y: y5 }) {
let { x: x3, glyph } = mark;
switch (glyph) {
case "grant":
return a4("circle", { cx: x3, cy: y5, r: "2.500", fill: "currentColor" });
case "beat":
return a4("path", { class: "beat", d: `M${x3} ${y5 + 9}v10` });
case "expiry":
return a4("path", { class: "expiry", d: `M${x3} ${y5 - 17}v34` });
case "stop":
return a4("path", { class: "stop", d: `M${x3} ${y5 - 11}v22` });
case "step":
return a4("path", { class: "step", d: `M${x3} ${y5 - 6}l6 6-6 6-6-6z` });
case "refused":
return a4("g", { children: [
a4("path", { class: "refused", d: `M${x3} ${y5 - 10}l10 10-10 10-10-10z` }),
a4("path", { class: "cross", d: `M${x3 - 3.5} ${y5 - 3.5}l7 7M${x3 + 3.5} ${y5 - 3.5}l-7 7` })
] });
default:
return a4("g", { children: [
a4("circle", { class: "halo", cx: x3, cy: y5, r: "9.500" }),
a4(GlyphAt, { name: glyph, x: x3, y: y5, size: 16 })
] });
}
}
function LabelView({ label, y: y5 }) {
let dy = { above: -12, level: -3, below: 12 }[label.row], tone = label.tone ? `t-${label.tone}` : "";
return a4(
"text",
{
class: `label ${tone} ${label.isStrong ? "strong" : ""}`,
x: label.x,
y: y5 + dy,
"text-anchor": label.anchor,
children: visible(label.text)
}
);
}
function LinkView({ link }) {
let [y0, y1] = [laneY(link.fromLane), laneY(link.toLane)], { fromX, toX } = link;
if (link.style === "cause") return a4("path", { class: "cause", d: `M${fromX} ${y0 + 8}V${y1}H${toX}` });
if (link.style === "resume") {
let turn = toX - 13;
return turn - fromX > 24 ? a4("path", { class: "resume", d: `M${fromX + 11} ${y0}H${turn - 8}q8 0 8 -8V${y1 + 8}q0 -8 8 -8H${toX - 4}` }) : a4(
"path",
{
class: "resume",
d: `M${fromX} ${y0 - 12}C${fromX} ${y1 + 18} ${toX - 12} ${y1} ${toX - 4} ${y1}`
}
);
}
let bend = Math.min(fromX, toX) - 13;
return a4("g", { children: [
a4(
"path",
{
class: "takeover",
d: `M${fromX} ${y0 + 17}C${fromX} ${y1 - 24} ${bend} ${y1 - 30} ${bend} ${y1 - 12}S${bend + 5} ${y1} ${toX - 5} ${y1}`
}
),
a4("path", { class: "takeover-head", d: `M${toX - 6} ${y1 - 4.5}l6 4.500-6 4.500z` })
] });
}
function Legend() {
return a4("span", { class: "legend", children: [
a4("span", { children: [
a4("svg", { width: "22", height: "12", "aria-hidden": "true", children: [
a4("rect", { class: "work", y: "1", width: "22", height: "7", rx: "2" }),
a4("rect", { class: "lease", y: "10", width: "22", height: "2", rx: "1" })
] }),
"work, lease"
] }),
a4("span", { class: "t-retry ink", children: [
a4(Glyph, { name: "take" }),
"takeover"
] }),
a4("span", { class: "t-refused ink", children: [
a4(Glyph, { name: "refused" }),
"refused"
] }),
a4("span", { class: "t-run ink", children: [
a4(Glyph, { name: "step" }),
"checkpoint"
] }),
a4("span", { children: [
a4("svg", { width: "20", height: "12", "aria-hidden": "true", children: a4("rect", { class: "fold", width: "20", height: "12" }) }),
"idle time folded"
] })
] });
}

// src/pages/run-timeline.tsx
var EXCERPT = 9;
function TimelineTab({ whole, events }) {
let selected = place.value.query.get("sel") ?? preselected(events), isTrue = place.value.query.get("scale") === "true", choose = (id) => go(withQuery({ sel: id }), { replace: !0 }), title = (n3) => whole.approvals.find((approval2) => approval2.approvalId.endsWith(`-${n3}`))?.subject ?? void 0;
return events.attempts.length === 0 && events.waits.length === 0 ? a4(NotStarted, { whole }) : a4($, { children: [
a4(
Card,
{
title: "Timeline",
aside: a4($, { children: [
a4(Legend, {}),
a4("a", { class: "switch", href: withQuery({ scale: isTrue ? void 0 : "true" }), children: isTrue ? "fold idle time" : "true proportions" })
] }),
children: a4("div", { class: "pad-x", children: a4(
Timeline,
{
events,
isTrue,
selected,
choose,
approvalTitle: title,
nameOf
}
) })
}
),
a4("div", { class: "beside", children: [
a4(Selected, { whole, events, id: selected }),
a4(Excerpt, { whole, events, selected })
] })
] });
}
function preselected(events) {
if (events.refused.length > 0) return "refused-0";
let attempt = events.attempts.find((other) => other.outcome === "LOST") ?? events.attempts.at(-1);
return attempt ? `attempt-${attempt.n}` : void 0;
}
function NotStarted({ whole }) {
let gate = whole.explanation?.gates[0];
return a4("section", { class: "card", children: a4(
Empty,
{
title: "Nothing has happened yet",
lines: [command("work", "--queue", whole.run.queue, "--exec", "cat")],
children: [
gate ? `${gate.now}. ` : "",
"A worker that polls the queue ",
a4("code", { children: whole.run.queue }),
" takes it:"
]
}
) });
}
function Selected({ whole, events, id }) {
let refused2 = events.refused.find((_3, i4) => id === `refused-${i4}`);
if (refused2) return a4(RefusedCard, { whole, events, refused: refused2 });
let attempt = events.attempts.find((other) => id === `attempt-${other.n}`);
if (attempt) return a4(AttemptCard, { whole, attempt });
let entry = whole.entries.find((other) => id === `entry-${other.n}`);
return entry ? a4(EntryCard, { whole, entry }) : a4(Card, { title: "Details", children: a4("p", { class: "pad-x muted", children: "Choose a mark of the timeline." }) });
}
var exact = (t4) => clockTime(t4, t4, timeStyle.value === "utc", !0);
function Facts2({ rows }) {
return a4("dl", { class: "kv", children: rows.filter((row2) => row2 !== void 0).map(([name, value]) => a4("div", { children: [
a4("dt", { children: name }),
a4("dd", { children: value })
] }, name)) });
}
function Toned({ tone, children }) {
return a4("span", { class: `t-${tone} ink`, children });
}
function RefusedCard({ whole, events, refused: refused2 }) {
let attempt = events.attempts.find((other) => other.n === refused2.attempt), current = events.attempts.findLast((other) => other.granted <= refused2.at);
return a4(
Card,
{
title: a4(Toned, { tone: "refused", children: [
"Late ",
refused2.call,
" refused"
] }),
aside: a4("span", { class: "muted num", children: exact(refused2.at) }),
children: [
a4(
Facts2,
{
rows: [
[
"who",
a4($, { children: [
visible(refused2.worker),
", attempt ",
refused2.attempt,
attempt && `, fence ${fence(attempt.fence)}`
] })
],
[
"when",
attempt?.ended ? `${span(refused2.at - attempt.ended)} after its lease had ended` : exact(refused2.at)
],
["verdict", `${refused2.verdict}: the worker had lost its authority`],
[
"because",
a4($, { children: [
a4("code", { children: refused2.error }),
current && current.n !== refused2.attempt && `: attempt ${current.n} of ${current.owner} was current`
] })
],
[
"effect",
"none on the record. The program may still have acted outside: pass the fence to the systems it writes to."
]
]
}
),
a4(Line, { run: whole.run.runId })
]
}
);
}
function AttemptCard({ whole, attempt }) {
let look2 = outcomeLook(attempt.outcome), isLost = attempt.outcome === "LOST";
return a4(
Card,
{
title: a4(Toned, { tone: look2.tone, children: [
"Attempt ",
attempt.n,
": ",
look2.word
] }),
aside: a4("span", { class: "muted num", children: exact(attempt.granted) }),
children: [
a4(
Facts2,
{
rows: [
["who", a4("a", { href: `runs?worker=${encodeURIComponent(attempt.owner)}`, children: visible(attempt.owner) })],
["lease", `granted with fence ${fence(attempt.fence)}, ${span(attempt.leaseMs)} with each renewal`],
attempt.started === void 0 ? void 0 : ["started", `${span(attempt.started - attempt.granted)} after the grant`],
isLost ? ["last heard", `${exact(attempt.lastBeat)}, one lease before the expiry`] : void 0,
attempt.ended === void 0 ? ["lease ends", exact(attempt.expires)] : ["ended", `${exact(attempt.ended)}, after ${span(attempt.ended - attempt.granted)}`],
attempt.reason && attempt.reason !== attempt.outcome ? ["because", a4("code", { children: attempt.reason })] : void 0,
attempt.message ? ["message", visible(attempt.message)] : void 0,
attempt.steps.length > 0 ? [
"recorded",
attempt.steps.slice(0, 12).map((step) => step.key).join(", ")
] : void 0
]
}
),
a4(Line, { run: whole.run.runId })
]
}
);
}
function EntryCard({ whole, entry }) {
let key2 = entry.detail.step ?? entry.detail.wait, step = whole.steps.find((other) => other.key === key2);
return a4(
Card,
{
title: words(entry.kind),
note: `decision ${entry.n}`,
aside: a4("span", { class: "muted num", children: exact(ms(entry.at)) }),
children: [
a4(
Facts2,
{
rows: [
...Object.entries(entry.detail).map(([name, value]) => [
name,
visible(plain2(value))
]),
step?.inputDigest ? ["input", a4(Digest, { value: step.inputDigest, short: !0 })] : void 0,
step?.result ? ["result", a4("bdi", { class: "mono clip", children: visible(step.result.slice(0, 200)) })] : void 0
]
}
),
a4(Line, { run: whole.run.runId })
]
}
);
}
function Line({ run }) {
return a4("div", { class: "pad-x pad-b", children: a4(Cli, { line: command("runs", "show", run) }) });
}
var words = (kind) => kind.replaceAll("_", " "), plain2 = (value) => typeof value == "string" ? value : JSON.stringify(value);
function rowsOf2(whole) {
let decisions = whole.entries.map(
(entry) => ({
id: `entry-${entry.n}`,
n: entry.n,
at: ms(entry.at),
what: words(entry.kind),
detail: describe(entry),
attempt: entry.attempt ?? void 0,
tone: toneOf(entry)
})
), refusals2 = (whole.run.refused ?? []).map(
(call2, i4) => ({
id: `refused-${i4}`,
at: ms(call2.at),
what: "refused",
detail: `${call2.call} of ${call2.workerId}: ${call2.error}`,
attempt: call2.attempt,
tone: "refused"
})
);
return [...decisions, ...refusals2].sort(
(a5, b3) => a5.at - b3.at || (a5.n ?? Number.MAX_SAFE_INTEGER) - (b3.n ?? Number.MAX_SAFE_INTEGER)
);
}
function toneOf(entry) {
return entry.detail.outcome === "LOST" ? "retry" : entry.detail.outcome === "FAILED" ? "bad" : void 0;
}
function describe(entry) {
let { detail } = entry, text2 = (name) => typeof detail[name] == "string" ? detail[name] : void 0;
return entry.kind === "granted" ? [
`to ${text2("owner")}`,
`fence ${fence(Number(detail.fence))}`,
text2("step") && `${text2("step")} recorded`
].filter(Boolean).join(", ") : text2("decision") ? [`${text2("by")?.slice(0, 8)}: ${text2("decision")}`, text2("comment") && `“${text2("comment")}”`].filter(Boolean).join(", ") : entry.kind === "attempt_closed" ? [
text2("outcome"),
text2("reason") !== text2("outcome") ? text2("reason") : void 0,
text2("wait") && `waits for ${text2("wait")?.replace(/^wait:/, "")}`,
text2("message")
].filter(Boolean).join(", ") : entry.kind === "submitted" || entry.kind === "planned" ? `${text2("kind")} on ${text2("queue")}` : [
text2("step"),
text2("wait"),
text2("signal"),
text2("childKey"),
text2("child"),
text2("key"),
text2("cancelReason")
].filter(Boolean).join(", ");
}
function HistoryRows({ rows, selected }) {
let choose = (id) => go(withQuery({ sel: id }), { replace: !0 });
return a4("table", { class: "history", children: [
a4("thead", { class: "vh", children: a4("tr", { children: [
a4("th", { children: "number" }),
a4("th", { children: "time" }),
a4("th", { children: "decision" }),
a4("th", { children: "detail" }),
a4("th", { children: "attempt" })
] }) }),
a4("tbody", { children: rows.map((row2) => a4("tr", { class: `${row2.id === selected ? "sel" : ""} ${row2.tone ? `t-${row2.tone}` : ""}`, children: [
a4("td", { class: "num muted", children: row2.n ?? "" }),
a4("td", { class: "num", children: exact(row2.at) }),
a4("td", { children: a4(
"button",
{
type: "button",
class: "plain",
"data-row": !0,
"aria-pressed": row2.id === selected,
onClick: () => choose(row2.id),
children: row2.what
}
) }),
a4("td", { class: "wide-cell", children: visible(row2.detail) }),
a4("td", { class: "muted nowrap", children: row2.attempt === void 0 ? "" : `attempt ${row2.attempt}` })
] }, row2.id)) })
] });
}
function Excerpt({
whole,
selected,
events
}) {
let rows = rowsOf2(whole), at = Math.max(
0,
rows.findIndex((row2) => row2.id === selected || isClosing(row2, selected, events))
), from = Math.max(0, Math.min(at - 4, rows.length - EXCERPT)), refused2 = whole.run.refused?.length ?? 0, note = `${whole.entries.length} decisions${refused2 > 0 ? ` and ${refused2} ${refused2 === 1 ? "refusal" : "refusals"}` : ""}, in order of commit`;
return a4(Card, { title: "History", note, aside: a4("a", { href: `runs/${whole.run.runId}/history`, children: "all" }), children: a4(HistoryRows, { rows: rows.slice(from, from + EXCERPT), selected }) });
}
function isClosing(row2, selected, events) {
let attempt = events.attempts.find((other) => selected === `attempt-${other.n}`);
return attempt !== void 0 && row2.n === (attempt.closedBy ?? attempt.entry);
}
function HistoryTab({ whole }) {
let rows = rowsOf2(whole);
return a4(
Card,
{
title: "History",
note: "every decision about the run, in order of commit; nothing is ever changed or removed",
children: a4(HistoryRows, { rows, selected: place.value.query.get("sel") ?? void 0 })
}
);
}

// src/pages/run.tsx
var ENTRIES_MAX = 4e3;
async function readWhole(id, known, signal) {
let run = await get(`v1/runs/${id}`, { query: { tree: 20 }, signal });
if (known !== void 0 && isEnded(known.run.state) && isEnded(run.state) && known.effects.every(isSettled)) return { ...known, run };
let entries = await readHistory(id, known?.entries ?? [], signal), optional = (read5) => read5.catch(() => {
}), [steps, effects, explanation, approvals2] = await Promise.all([
run.durable ? optional(get(`v1/runs/${id}/steps`, { query: { limit: 1e3 }, signal })) : void 0,
optional(readEffects(run, known?.effects ?? [], signal)),
optional(get(`v1/runs/${id}/explain`, { signal })),
readApprovals(run, entries, known?.approvals ?? [], signal)
]);
return { run, entries, steps: steps?.steps ?? [], effects: effects ?? [], explanation, approvals: approvals2 };
}
async function readHistory(id, known, signal) {
let entries = [...known];
for (; ; ) {
let after = entries.at(-1)?.n ?? 0, page = await get(`v1/runs/${id}/history`, { query: { after, limit: 1e3 }, signal });
if (entries.push(...page.entries), page.entries.length < 1e3 || entries.length >= ENTRIES_MAX) return entries;
}
}
var isSettled = (effect) => effect.state === "delivered" || effect.state === "dead", TOLD_EFFECTS_MAX = 20;
async function readEffects(run, known, signal) {
let query = { runId: run.runId, limit: 50 }, { effects } = await get("v1/effects", { query, signal }), whole = (listed, i4) => {
let told = known.find((effect) => effect.effectId === listed.effectId);
return i4 >= TOLD_EFFECTS_MAX ? listed : told && isSettled(told) && told.state === listed.state ? told : get(`v1/effects/${listed.effectId}`, { signal }).catch(() => listed);
};
return Promise.all(effects.map(whole));
}
async function readApprovals(run, entries, known, signal) {
let ids = [...new Set(
entries.map((entry) => entry.detail.approval).filter((n3) => typeof n3 == "number")
)].slice(0, 20).map((n3) => `appr_${run.taskId.replace(/^task_/, "")}-${n3}`), read5 = (id) => known.find((approval2) => approval2.approvalId === id && approval2.state === "closed") ?? get(`v1/approvals/${id}`, { signal }).catch(() => {
});
return (await Promise.all(ids.map(read5))).filter(
(approval2) => approval2 !== void 0
);
}
function RunPage({ id: named, tab }) {
let id = runIdOf(named), known = useSignal(void 0), query = useQuery(`run ${id}`, "run", async (signal) => {
let whole2 = await readWhole(id, known.value, signal);
return known.value = whole2, whole2;
}), whole = query.data.value;
if (!whole) {
let problem = query.problem.value;
return problem?.status === 404 ? a4(Gone, { id }) : problem ? a4(Failed, { problem, again: query.again }) : a4(Loading, { rows: 12 });
}
return a4(Shown3, { whole, tab, again: query.again });
}
function Gone({ id }) {
return a4(Empty, { title: "This run is not here", lines: [command("prove", id)], children: [
"No run of this workspace has the id ",
a4("code", { children: id }),
". It may belong to another workspace, or retention has removed it; its seal still names it."
] });
}
function Shown3({ whole, tab, again }) {
let { run, entries, effects, explanation } = whole, events = eventsOf(run, entries, effects, isEnded(run.state) ? 0 : Math.max(clock.value, now())), parts = story(run, events, explanation?.gates ?? [], timeStyle.value === "utc"), look2 = stateLook(run.state);
return document.title = `${run.kind} ${run.state} · Tenure`, a4($, { children: [
a4("div", { class: "crumb", children: [
a4("a", { href: "runs", children: "Runs" }),
" /",
" ",
a4("a", { href: `runs?kind=${encodeURIComponent(run.kind)}`, children: visible(run.kind) })
] }),
a4("div", { class: "head", children: [
a4("h1", { children: visible(run.kind) }),
a4(Pill, { look: look2 }),
a4("span", { class: "id", children: [
a4("code", { class: "soft", children: run.runId }),
a4(Copy, { text: run.runId })
] }),
a4("span", { class: "sp" }),
a4(Actions, { run, again })
] }),
a4(
Facts3,
{
run,
lost: events.attempts.filter((attempt) => attempt.outcome === "LOST").length,
work: workOf(events)
}
),
a4("p", { class: `story t-${look2.tone}`, children: a4(Sentence, { parts }) }),
a4(Tabs2, { id: run.runId, tab, whole }),
tab === "timeline" && a4(TimelineTab, { whole, events }),
tab === "steps" && a4(StepsTab, { steps: whole.steps }),
tab === "payloads" && a4(PayloadsTab, { run }),
tab === "effects" && a4(EffectsTab2, { effects, run }),
tab === "children" && a4(ChildrenTab, { run }),
tab === "history" && a4(HistoryTab, { whole }),
tab === "record" && a4(RecordTab, { run }),
tab === "raw" && a4(RawTab, { run }),
tab !== "timeline" && a4("div", { class: "foot", children: a4(Cli, { line: commandOf(tab, run) }) })
] });
}
function commandOf(tab, run) {
return tab === "history" ? command("runs", "history", run.runId) : tab === "record" ? command("runs", "record", run.runId) : tab === "effects" ? command("effects", "--run", run.runId) : tab === "raw" ? command("runs", "show", run.runId, "--json") : command("runs", "show", run.runId);
}
function Fact({ name, children }) {
return a4("div", { children: [
a4("dt", { children: name }),
a4("dd", { children })
] });
}
function workOf(events) {
return events.attempts.reduce((sum2, attempt) => sum2 + (attempt.ended ?? events.to) - attempt.granted, 0);
}
function spent(run) {
let { limits, used } = run.budget ?? {};
return !limits || !used ? [] : [
["tokens", used.tokens, limits.tokens],
["tool calls", used.toolCalls, limits.toolCalls],
["budgeted steps", used.steps, limits.steps]
].flatMap(
([unit, n3, limit]) => typeof limit == "number" ? [[unit, `${counted(n3)} of ${counted(limit)}`]] : []
);
}
var counted = (n3) => n3.toLocaleString("en");
function Facts3({ run, lost: lost2, work }) {
let end2 = ms(run.completedAt), created = ms(run.createdAt);
return a4("dl", { class: "facts", children: [
a4(Fact, { name: "queue", children: a4("a", { href: `queues/${run.queue.replaceAll("/", "~")}`, children: visible(run.queue) }) }),
a4(Fact, { name: "submitted", children: a4(Time, { at: run.createdAt }) }),
a4(Fact, { name: end2 === void 0 ? "open for" : "took", children: [
a4("b", { children: span((end2 ?? clock.value) - created) }),
" ",
work > 0 && a4("span", { class: "muted", children: [
"(",
span(work),
" of work)"
] })
] }),
run.attempt > 0 && a4(Fact, { name: "attempts", children: [
run.attempt,
lost2 > 0 && a4($, { children: [
", ",
a4("span", { class: "t-retry ink", children: [
lost2,
" lost"
] })
] })
] }),
spent(run).map(([unit, words2]) => a4(Fact, { name: unit, children: words2 }, unit)),
run.lease && a4(Fact, { name: "lease ends", children: a4(Time, { at: run.lease.expiresAt }) }),
run.deadline && a4(Fact, { name: "deadline", children: a4(Time, { at: run.deadline }) }),
run.parent && a4(Fact, { name: "child of", children: a4("a", { href: `runs/${runIdOf(run.parent.taskId)}`, children: visible(run.parent.key) }) }),
run.retryOf && a4(Fact, { name: "retry of", children: a4("a", { href: `runs/${run.retryOf}`, children: run.retryOf }) }),
run.forkOf && a4(Fact, { name: "continues", children: a4("a", { href: `runs/${run.forkOf}`, children: run.forkOf }) }),
[...run.retries ?? [], ...run.forks ?? []].map((id) => a4(Fact, { name: "went on as", children: a4("a", { href: `runs/${id}`, children: id }) }, id)),
Object.entries(run.labels ?? {}).slice(0, 6).map(([name, value]) => a4(Fact, { name: visible(name), children: a4("a", { href: `runs?label=${encodeURIComponent(`${name}=${value}`)}`, children: visible(String(value)) }) }, name))
] });
}
function Tabs2({ id, tab, whole }) {
let { run, entries, steps, effects } = whole, children = run.durable?.children ?? 0, all = [
["timeline", "Timeline", !0],
["steps", `Steps ${steps.length}`, steps.length > 0],
["payloads", "Input and output", !0],
["effects", `Effects ${effects.length}`, effects.length > 0],
["children", `Children ${children}`, children > 0],
["history", `History ${entries.length}`, !0],
["record", "Record", isEnded(run.state)],
["raw", "Raw", !0]
], query = place.value.query.toString();
return a4("nav", { class: "tabs", "aria-label": "Parts of the run", children: all.filter(([name, , isThere]) => isThere || name === tab).map(([name, title]) => a4(
"a",
{
class: tab === name ? "on" : "",
"aria-current": tab === name ? "page" : void 0,
href: `runs/${id}${name === "timeline" ? "" : `/${name}`}${query ? `?${query}` : ""}`,
children: title
},
name
)) });
}

// src/model/why.ts
function why(run, at) {
if (run.error)
return run.error.reason === run.error.category ? run.error.message : `${run.error.reason}: ${run.error.message}`;
if (run.cancelRequestedAt && !run.completedAt)
return `cancelling since ${roughly(at - ms(run.cancelRequestedAt))}`;
switch (run.state) {
case "waiting":
return waiting(run);
case "retry":
return run.nextAttemptAt ? `attempt ${run.attempt + 1} ${relative(ms(run.nextAttemptAt), at)}` : "another attempt follows";
case "running":
return running(run, at);
case "queued":
return run.runAt && ms(run.runAt) > at ? `starts ${relative(ms(run.runAt), at)}` : "waits for a worker";
case "blocked":
return "waits for other steps of its plan";
default:
return "";
}
}
function running(run, at) {
let lease = run.lease;
return lease ? lease.stalledAt ? `no progress since ${roughly(at - ms(lease.progressedAt ?? lease.stalledAt))}` : [typeof lease.progressPct == "number" ? `${Math.round(lease.progressPct)} %` : "", lease.message ?? ""].filter(Boolean).join(", ") : "";
}
function waiting(run) {
let parked = run.durable?.waiting;
if (parked?.diverged)
return `diverged: its code does not match what it recorded at ${parked.diverged.recorded}`;
if (parked?.ending) return "ends when its children have ended";
let wait = parked?.wait;
if (!wait) return "ready to go on";
let names2 = wait.for.map(awaited), first = names2.slice(0, 2).join(wait.mode === "any" ? " or " : " and ");
return names2.length > 2 ? `waits for ${first} and ${names2.length - 2} more` : `waits for ${first}`;
}
function awaited(item) {
return item.approval ? "an approval" : item.signal ? `the signal ${item.signal}` : item.child ? `its child ${item.key}` : item.effect ? "the delivery of an effect" : item.until ? "a time" : item.key;
}

// src/parts/filter.tsx
var NAMES = ["kind", "queue", "worker", "label", "category", "since", "children"], HINTS = {
kind: "invoice.process",
queue: "invoices",
worker: "alice",
label: "customer=acme",
category: "USER_CODE",
since: "15m, 24h or 7d",
children: "true"
};
function refusal3(name, value) {
if (value === "") return "say what to look for";
if (name === "since" && !/^\d{1,4}[mhd]$/.test(value)) return "a number with m, h or d, such as 24h";
if (name === "children" && value !== "true" && value !== "false") return "true or false";
if (["kind", "queue", "worker"].includes(name) && !/^[A-Za-z0-9._:/-]{1,128}$/.test(value))
return "letters, digits and . _ : / - only";
if (name === "category" && !/^(USER_CODE|DATA_QUALITY|INFRASTRUCTURE|CONFIGURATION|TIMEOUT)$/.test(value))
return "USER_CODE, DATA_QUALITY, INFRASTRUCTURE, CONFIGURATION or TIMEOUT";
}
function FilterBar() {
let name = useSignal("kind"), value = useSignal(""), problem = useSignal(void 0), chosen2 = [...place.value.query].filter(([key2]) => NAMES.includes(key2));
return a4("form", { class: "filter", onSubmit: (event) => {
event.preventDefault(), problem.value = refusal3(name.value, value.value.trim()), !problem.value && (go(withQuery({ [name.value]: value.value.trim() })), value.value = "");
}, children: [
chosen2.map(([key2, text2]) => a4(
"a",
{
class: "chip on-soft",
href: withQuery({ [key2]: void 0 }),
"aria-label": `remove the filter ${key2} ${text2}`,
children: [
a4("span", { class: "muted", children: key2 }),
" ",
a4("bdi", { children: text2 }),
" ×"
]
},
key2 + text2
)),
a4("label", { class: "vh", for: "filter-name", children: "Filter by" }),
a4(
"select",
{
id: "filter-name",
value: name.value,
onChange: (event) => {
name.value = event.currentTarget.value, problem.value = void 0;
},
children: NAMES.map((each) => a4("option", { value: each, children: each }, each))
}
),
a4("label", { class: "vh", for: "filter-value", children: "Value" }),
a4(
"input",
{
id: "filter-value",
type: "text",
value: value.value,
placeholder: HINTS[name.value],
"aria-describedby": "filter-problem",
onInput: (event) => {
value.value = event.currentTarget.value;
}
}
),
a4("button", { type: "submit", class: "btn", children: "Filter" }),
a4("span", { id: "filter-problem", class: "t-bad ink", role: "status", children: problem.value ?? "" })
] });
}

// src/parts/rows.tsx
var SPARE2 = 10;
function VirtualRows({ items, height, row: row2, nearEnd }) {
let box = T2(null), range = useSignal([0, 60]), onNearEnd = T2(nearEnd);
onNearEnd.current = nearEnd, A2(() => {
let measure = () => {
let top = -(box.current?.getBoundingClientRect().top ?? 0), first2 = Math.max(0, Math.floor(top / height) - SPARE2), last2 = Math.ceil((top + innerHeight) / height) + SPARE2;
(first2 !== range.value[0] || last2 !== range.value[1]) && (range.value = [first2, last2]), last2 >= items.length && scrollY > 0 && onNearEnd.current?.();
};
return measure(), addEventListener("scroll", measure, { passive: !0 }), addEventListener("resize", measure), () => {
removeEventListener("scroll", measure), removeEventListener("resize", measure);
};
}, [items.length, height]);
let [first, last] = range.value;
return a4("div", { ref: box, role: "rowgroup", style: { height: `${items.length * height}px` }, children: a4("div", { role: "presentation", style: { transform: `translateY(${first * height}px)` }, children: items.slice(first, last).map((item, i4) => row2(item, first + i4)) }) });
}

// src/pages/runs.tsx
var PAGE4 = 50, ROWS_MAX = 5e3, FILTERS = ["state", "queue", "kind", "label", "worker", "category", "children"];
function apiQuery(query, at) {
let asked2 = new URLSearchParams();
for (let name of FILTERS)
for (let value of query.getAll(name)) value !== "" && asked2.append(name, value);
let since = duration(query.get("since"));
return since !== void 0 && asked2.set("since", new Date(at - since).toISOString()), asked2;
}
function duration(text2) {
let match = text2?.match(/^(\d{1,4})([mhd])$/);
if (match)
return Number(match[1]) * { m: 6e4, h: 36e5, d: 864e5 }[match[2]];
}
function RunsPage() {
let query = place.value.query, key2 = query.toString(), list = useRuns(key2, query), count2 = list.rows.value.length;
return a4($, { children: [
a4("div", { class: "head", children: [
a4("h1", { children: "Runs" }),
count2 > 0 && a4("span", { class: "soft", children: [
count2,
list.cursor.value ? " and more" : "",
", newest first"
] }),
a4("span", { class: "sp" }),
list.above.value.length > 0 && a4("button", { type: "button", class: "btn", onClick: list.showNew, children: [
list.above.value.length,
" new above ↑"
] })
] }),
a4(StateTabs, {}),
a4(FilterBar, {}),
list.problem.value && a4(Failed, { problem: list.problem.value, again: list.again }),
a4(Rows, { list }),
a4("div", { class: "foot", children: a4(Cli, { line: listCommand(query) }) })
] });
}
function StateTabs() {
let chosen2 = place.value.query.get("state") ?? "";
return a4("nav", { class: "chips", "aria-label": "State", children: [
a4(
"a",
{
class: `chip ${chosen2 === "" ? "on" : ""}`,
"aria-current": chosen2 === "" ? "true" : void 0,
href: withQuery({ state: void 0 }),
children: "all"
}
),
STATE_NAMES.filter((state) => state !== "skipped" && state !== "blocked").map((state) => {
let look2 = stateLook(state), isOn = chosen2 === state;
return a4(
"a",
{
class: `chip ${isOn ? "on" : ""}`,
"aria-current": isOn ? "true" : void 0,
href: withQuery({ state: isOn ? void 0 : state }),
children: [
a4("span", { class: isOn ? "" : `t-${look2.tone} ink`, children: a4(Glyph, { name: look2.glyph, size: 11 }) }),
state
]
},
state
);
})
] });
}
function useRuns(key2, query) {
let rows = useSignal([]), above = useSignal([]), cursor = useSignal(void 0), searched = useSignal(void 0), problem = useSignal(void 0), isRead = useSignal(!1), again = T2(async () => {
});
A2(() => {
let isOver = !1;
rows.value = [], above.value = [], cursor.value = void 0, isRead.value = !1, again.current = async () => {
try {
let asked2 = apiQuery(query, now());
asked2.set("limit", String(PAGE4));
let page = await get("v1/runs", { query: asked2 });
if (isOver) return;
merge(page), problem.value = void 0, fresh();
} catch (error2) {
if (isOver) return;
problem.value = asProblem(error2), problem.value.isUnreachable && lost();
}
};
let merge = (page) => {
if (!isRead.value) {
rows.value = page.runs, cursor.value = page.nextCursor ?? void 0, searched.value = page, isRead.value = !0;
return;
}
let known = new Set(rows.value.map((run) => run.runId)), changed = new Map(page.runs.map((run) => [run.runId, run]));
rows.value = rows.value.map((run) => changed.get(run.runId) ?? run), above.value = page.runs.filter((run) => !known.has(run.runId)), scrollY < 40 && showNew();
}, stop = follow("runs", () => again.current());
return () => {
isOver = !0, stop();
};
}, [key2]);
let showNew = () => {
rows.value = [...above.value, ...rows.value].slice(0, ROWS_MAX), above.value = [];
};
return { rows, above, cursor, searched, problem, isRead, again: () => again.current(), more: async () => {
if (!cursor.value || rows.value.length >= ROWS_MAX) return;
let asked2 = apiQuery(query, now());
asked2.set("limit", String(PAGE4 * 2)), asked2.set("cursor", cursor.value), cursor.value = void 0;
try {
let page = await get("v1/runs", { query: asked2 }), known = new Set(rows.value.map((run) => run.runId));
rows.value = [...rows.value, ...page.runs.filter((run) => !known.has(run.runId))], cursor.value = page.nextCursor ?? void 0, searched.value = page;
} catch (error2) {
problem.value = asProblem(error2);
}
}, showNew };
}
function Rows({ list }) {
let runs = list.rows.value;
return list.isRead.value ? runs.length === 0 ? a4("section", { class: "card", children: a4(NoRuns, { list }) }) : a4("section", { class: "card grid-table runs", children: [
a4("div", { role: "table", "aria-label": "Runs", "aria-rowcount": runs.length, children: [
a4("div", { class: "tr th", role: "row", children: ["state", "kind", "queue", "submitted", "took", "attempts", "worker", "why"].map((name) => a4("span", { role: "columnheader", class: `c-${name}`, children: name }, name)) }),
a4(
VirtualRows,
{
items: runs,
height: 34,
nearEnd: list.more,
row: (run, i4) => a4(Row, { run, index: i4 }, run.runId)
}
)
] }),
a4(Bound, { list })
] }) : list.problem.value ? null : a4("section", { class: "card", children: a4(Loading, { rows: 8 }) });
}
function Row({ run, index }) {
let started = ms(run.startedAt), end2 = ms(run.completedAt), took = end2 !== void 0 ? end2 - ms(run.createdAt) : started !== void 0 ? clock.value - started : void 0;
return a4("div", { class: "tr", role: "row", "aria-rowindex": index + 1, children: [
a4("span", { role: "cell", class: "c-state", children: a4(Mark, { look: stateLook(run.state) }) }),
a4("span", { role: "cell", class: "c-kind strong", children: a4("a", { class: "row-link", "data-row": !0, href: `runs/${run.runId}`, children: visible(run.kind) }) }),
a4("span", { role: "cell", class: "c-queue soft", children: visible(run.queue) }),
a4("span", { role: "cell", class: "c-submitted", children: a4(Time, { at: run.createdAt }) }),
a4("span", { role: "cell", class: "c-took num", children: took === void 0 ? "" : span(took) }),
a4("span", { role: "cell", class: "c-attempts num", children: attempts(run) }),
a4("span", { role: "cell", class: "c-worker soft", children: visible(run.workerId ?? run.lease?.owner ?? "–") }),
a4("span", { role: "cell", class: "c-why soft", title: visible(why(run, clock.value)), children: visible(why(run, clock.value)) })
] });
}
function attempts(run) {
return run.attempt === 0 ? "" : run.lost > 0 ? a4($, { children: [
run.attempt,
", ",
a4("b", { class: "t-retry ink", children: [
run.lost,
" lost"
] })
] }) : run.attempt;
}
function Bound({ list }) {
let { searched, cursor } = list, answer2 = searched.value;
if (!cursor.value) return null;
let isBound = answer2?.stopped === "scan";
return a4("div", { class: "bound muted", children: [
isBound && a4($, { children: [
"searched ",
answer2?.searched,
" runs, back to ",
a4(Time, { at: answer2?.searchedTo }),
" ·",
" "
] }),
a4("button", { type: "button", class: "link", onClick: list.more, children: isBound ? "search on" : "show more" })
] });
}
function NoRuns({ list }) {
let isFiltered = [...place.value.query.keys()].length > 0, answer2 = list.searched.value;
return isFiltered ? a4(Empty, { title: "No run matches", children: [
answer2?.searched ? `${answer2.searched} runs were looked at. ` : "",
list.cursor.value ? a4("button", { type: "button", class: "link", onClick: list.more, children: "Search on" }) : a4("a", { href: "runs", children: "Show all runs" })
] }) : a4(
Empty,
{
title: "No run yet",
lines: [
"tenure work --queue demo --exec cat",
`tenure submit hello --queue demo --input '{"name":"Ada"}' --wait`,
"tenure tour"
],
children: "Any program can be a worker. Start one, submit a run, and it appears here; or watch the tour, which kills a worker."
}
);
}

// src/pages/schedules.tsx
var PAGE5 = 200, INSTANTS = 5, ENTRIES = 20;
function SchedulesPage({ name }) {
return document.title = "Schedules · Tenure", name ? name.includes("~") ? a4(NamedSchedule, { path: name }, name) : a4(SchedulePage, { named: name }) : a4(SchedulesList, {});
}
function terms(schedule) {
return schedule.cron ? `${schedule.cron}${schedule.timeZone ? ` (${schedule.timeZone})` : ""}` : schedule.everyMs ? `every ${span(schedule.everyMs).replace(/ 00 (s|min)$/, "")}` : "";
}
function scheduleLook(schedule, now2) {
if (schedule.state === "paused") return { tone: "retry", glyph: "park", word: "paused" };
if (schedule.state === "deleted") return { tone: "queue", glyph: "cancel", word: "deleted" };
let due = ms(schedule.nextAt);
return schedule.waiting > 0 || due !== void 0 && due < now2 - LATE_MS ? { tone: "bad", glyph: "bad", word: "late" } : { tone: "ok", glyph: "ok", word: "active" };
}
var LATE_MS = 6e4, handle = (schedule) => schedule.name.includes("/") ? schedule.scheduleId : schedule.name, SEARCHED_MAX = 5e3;
async function idOf(path2, signal) {
let cursor, searched = 0;
do {
let page = await get("v1/schedules", { query: { limit: PAGE5, cursor }, signal }), found = page.schedules.find(({ name: name2 }) => inPath(name2) === path2);
if (found) return found.scheduleId;
searched += page.schedules.length, cursor = page.cursor ?? void 0;
} while (cursor !== void 0 && searched < SEARCHED_MAX);
let name = path2.replaceAll("~", "/"), message = `none of ${cursor === void 0 ? "the schedules of this workspace" : `the first ${searched} schedules`} is named ${name}; one that was deleted is found by its id`;
throw new Problem(404, "not_found", "There is no such schedule", message);
}
function NamedSchedule({ path: path2 }) {
let query = useQuery(`schedule ${path2}`, void 0, (signal) => idOf(path2, signal)), id = query.data.value;
return id !== void 0 ? a4(SchedulePage, { named: id }) : a4($, { children: [
a4(Crumb, { name: "Schedules", to: "schedules" }),
a4(Read, { query, children: () => null })
] });
}
function SchedulesList() {
let query = useQuery(
"schedules",
"queues",
(signal) => get("v1/schedules", { query: { limit: PAGE5 }, signal })
);
return a4($, { children: [
a4(Head, { title: "Schedules", note: "runs that are submitted again and again" }),
a4(
Listing,
{
query,
isEmpty: ({ schedules }) => schedules.length === 0,
empty: a4(
Empty,
{
title: "No schedule yet",
lines: ["tenure schedules create nightly --cron '15 2 * * *' --kind report --queue reports"],
children: "A schedule submits a run at every instant of a cron expression or interval, once, also when the server was down in between."
}
),
children: ({ schedules }) => a4(Table, { isList: !0, items: schedules, by: (schedule) => schedule.scheduleId, columns: COLUMNS4 })
}
),
a4(Foot, { lines: ["tenure schedules list"] })
] });
}
var COLUMNS4 = [
["state", (schedule) => a4(Mark, { look: scheduleLook(schedule, clock.value) }), "nowrap"],
[
"schedule",
(schedule) => a4("a", { "data-row": !0, href: `schedules/${inPath(schedule.name)}`, children: visible(schedule.name) }),
"strong"
],
["when", (schedule) => a4("code", { children: visible(terms(schedule)) }), "hide-narrow"],
["next", (schedule) => a4(Time, { at: schedule.nextAt }), "nowrap"],
["last run", (schedule) => a4(LastRun, { schedule }), "nowrap hide-narrow"],
["fired", (schedule) => schedule.fired, "num r hide-narrow"],
["not fired", left, "hide-narrow"]
];
function LastRun({ schedule }) {
let { last } = schedule;
return last ? a4("a", { href: `runs/${last.runId}`, children: a4(Time, { at: last.instant }) }) : a4("span", { class: "muted", children: "none" });
}
function left(schedule) {
return [
[schedule.skipped, "skipped"],
[schedule.missed, "missed"],
[schedule.refused, "refused"]
].filter(([n3]) => n3 > 0).map(([n3, word]) => `${n3} ${word}`).join(", ");
}
function SchedulePage({ named }) {
let query = useQuery(`schedule ${named}`, "queues", async (signal) => {
let path2 = `v1/schedules/${named}`, [schedule, preview, history2] = await Promise.all([
get(path2, { signal }),
get(`${path2}/preview`, { query: { count: INSTANTS }, signal }),
get(`${path2}/history`, { query: { limit: ENTRIES }, signal })
]);
return { schedule, preview, history: history2 };
});
return a4($, { children: [
a4(Crumb, { name: "Schedules", to: "schedules" }),
a4(Read, { query, children: (whole) => a4(Shown4, { whole }) })
] });
}
function Shown4({ whole }) {
let { schedule, preview, history: history2 } = whole, look2 = scheduleLook(schedule, clock.value), { run } = schedule, named = handle(schedule);
return a4($, { children: [
a4(Head, { title: schedule.name, look: look2, note: a4("code", { children: visible(terms(schedule)) }) }),
a4("p", { class: `story t-${look2.tone}`, children: fate2(schedule) }),
a4("div", { class: "two", children: [
a4(
Card,
{
title: "Next",
note: run ? `submits ${visible(run.kind ?? "")} to ${visible(run.queue ?? "")}` : "",
children: [
a4("ol", { class: "instants", children: [
preview.instants.map((at) => a4("li", { children: [
a4("code", { children: clockTime(ms(at), 0, !1) }),
" ",
a4("span", { class: "muted", children: relative(ms(at), clock.value) })
] }, at)),
preview.instants.length === 0 && a4("li", { class: "muted", children: "no instant follows" })
] }),
a4("div", { class: "pad-x pad-b", children: a4(Cli, { line: command("schedules", "next", named) }) })
]
}
),
a4(Card, { title: "To change it", children: a4("div", { class: "pad-x pad-b", children: [
a4(Cli, { line: command("schedules", schedule.state === "paused" ? "resume" : "pause", named) }),
a4(Cli, { line: command("schedules", "trigger", named) })
] }) })
] }),
a4(Card, { title: "History", note: "changes and firings, the newest first", children: [
a4(Table, { items: history2.entries, by: ({ revision }) => revision, columns: ENTRY_COLUMNS }),
a4("div", { class: "pad-x pad-b", children: a4(Cli, { line: command("schedules", "history", named) }) })
] }),
a4(Foot, { lines: [command("schedules", "show", named)] })
] });
}
function fate2(schedule) {
let fired = schedule.fired === 1 ? "1 run" : `${schedule.fired} runs`, not = left(schedule), past = `It has submitted ${fired}${not ? `; ${not}` : ""}.`, refusal4 = schedule.lastRefusal ? ` The last refusal was ${schedule.lastRefusal.error}.` : "";
return {
paused: "Paused: it fires nothing until it is resumed, and makes up for nothing. ",
deleted: "Deleted; its runs stay. ",
active: schedule.waiting > 0 ? `${schedule.waiting} instants have come and could not fire yet. ` : ""
}[schedule.state] + past + refusal4;
}
var ENTRY_COLUMNS = [
["when", ({ at }) => a4(Time, { at }), "nowrap"],
["by", ({ keyId }) => keyId ? visible(nameOf(keyId)) : a4("span", { class: "muted", children: "time" })],
["state", ({ schedule }) => schedule.state],
["terms", ({ schedule }) => a4("code", { children: visible(terms(schedule)) }), "hide-narrow"],
["fired", ({ schedule }) => schedule.fired, "num r"],
["last run", ({ schedule }) => a4(LastRun, { schedule }), "nowrap"]
];

// src/model/topology.ts
var declarationOf = (text2) => JSON.parse(text2);
function moverOf({ by }, roles) {
let role = by.match(/^role:(.+)$/)?.[1];
return role === void 0 ? { kind: "person", name: by === "approval" ? "an approver" : "a person" } : { kind: roles?.[role]?.uses === "gate" ? "gate" : "role", name: role };
}
function movesOf(type, status) {
return (type?.transitions ?? []).filter(({ from, by }) => from === status && !by.startsWith("role:"));
}
function countByStatus(artifacts) {
let found = /* @__PURE__ */ new Map();
for (let { status, enteredAt } of artifacts) {
let at = ms(enteredAt), known = found.get(status) ?? { count: 0, oldestAt: at }, oldestAt = at === void 0 ? known.oldestAt : Math.min(known.oldestAt ?? at, at);
found.set(status, { count: known.count + 1, oldestAt });
}
return found;
}
var ORDERED = { tone: "run", glyph: "run", word: "ordered" }, PASSED = { tone: "ok", glyph: "ok", word: "passed" }, FAILED = { tone: "bad", glyph: "bad", word: "failed" }, ASKED = { tone: "wait", glyph: "wait", word: "asked" }, MADE = { tone: "queue", glyph: "queue", word: "created" }, HERE = { tone: "queue", glyph: "step", word: "now" }, nameOfArtifact = ({ type, id }) => `${type}/${id}`;
function storyOf(artifact, orders, pauses2) {
let name = nameOfArtifact(artifact), story2 = [{ at: ms(artifact.createdAt), look: MADE, what: "created", more: [] }];
for (let order of orders) order.artifacts.includes(name) && story2.push(...storyOfOrder(order));
for (let { subject, createdAt, reason, actions, state } of pauses2)
subject === name && story2.push({
at: ms(createdAt),
look: ASKED,
what: `${reason}${state === "closed" ? ", seen to" : ", waits for a person"}`,
more: state === "closed" ? [] : actions
});
return story2.sort((a5, b3) => a5.at - b3.at), artifact.transitionNo > 1 && story2.push({ at: ms(artifact.enteredAt), look: HERE, what: `now ${artifact.status}`, more: [] }), story2;
}
function storyOfOrder({ template, kind, queue, runId, createdAt, record }) {
let ordered = {
at: ms(createdAt),
look: ORDERED,
what: `${template} ordered`,
more: [`${kind} in ${queue}`],
runId
};
if (!record) return [ordered];
let { executionStatus, gateResult, gateReasons } = record, reasons = gateReasons.map(({ check, message }) => `${check}: ${message}`), judged = {
at: ms(record.createdAt),
look: gateResult === "PASS" ? PASSED : FAILED,
what: `${template} judged: ${gateResult}`,
more: [...executionStatus === "COMPLETED" ? [] : [executionStatus], ...reasons],
runId
};
return [ordered, judged];
}

// src/pages/artifact.tsx
var PAGE6 = 500, SEARCHED_MAX2 = 2e3;
async function find(path2, name, signal) {
let [type = "", ...rest] = name.split("/"), of = `${path2}/artifacts/${type}`;
if (rest.length < 2) return get(`${of}/${rest[0]}`, { signal });
let { items } = await readPages(SEARCHED_MAX2, async (cursor) => {
let page = await get(of, { query: { limit: PAGE6, cursor }, signal });
return [page.artifacts, page.cursor];
}), found = items.find((artifact) => nameOfArtifact(artifact) === name);
if (found) return found;
let message = `none of the first ${items.length} artifacts of the type is named ${name}`;
throw new Problem(404, "artifact_not_found", "There is no such artifact", message);
}
async function read3({ path: path2 }, name, signal) {
let [artifact, orders, pauses2] = await Promise.all([
find(path2, name, signal),
readPages(SEARCHED_MAX2, async (cursor) => {
let query = { limit: PAGE6, cursor }, page = await get(`${path2}/workorders`, { query, signal });
return [page.workOrders, page.cursor];
}),
readPages(SEARCHED_MAX2, async (cursor) => {
let query = { limit: PAGE6, cursor }, page = await get(`${path2}/pause-states`, { query, signal });
return [page.pauseStates, page.cursor];
})
]);
return { artifact, orders: orders.items, pauses: pauses2.items, isCut: orders.isCut || pauses2.isCut };
}
function ArtifactStory({ artifact, ...part }) {
let query = useQuery(
`artifact ${part.name} ${artifact}`,
"queues",
(signal) => read3(part, artifact, signal)
);
return a4(Read, { query, children: (state) => a4(Shown5, { part, state, again: query.again }) });
}
function Shown5({ part, state, again }) {
let { artifact } = state, name = nameOfArtifact(artifact), cycles = part.declaration.limits?.cycles;
return a4($, { children: [
a4("div", { class: "head", children: [
a4("h2", { class: "artifact-name", children: a4("code", { children: visible(name) }) }),
a4("span", { class: "tag", children: visible(artifact.status) }),
a4("span", { class: "sp" }),
a4(Moves, { part, artifact, again })
] }),
a4(
Facts,
{
of: [
["since", a4(Time, { at: artifact.enteredAt })],
[
"work orders since a person decided",
`${artifact.cycles}${cycles === void 0 ? "" : ` of ${cycles}`}`
],
["taken by", artifact.reservedBy && a4("code", { children: visible(artifact.reservedBy) })],
["revision", artifact.revision]
]
}
),
artifact.passed && a4("p", { class: "story t-wait", children: [
"The output of ",
a4("code", { children: visible(artifact.passed) }),
" passed its gate. A person has to confirm it: move the artifact on, or back."
] }),
a4("div", { class: "two artifact", children: [
a4(
Card,
{
title: "Story",
note: state.isCut ? `of the first ${SEARCHED_MAX2} work orders and pause states` : "oldest first",
children: a4("ol", { class: "happenings", children: storyOf(artifact, state.orders, state.pauses).map((happening) => a4(HappeningRow, { happening }, `${happening.at} ${happening.what}`)) })
}
),
a4(Card, { title: "Fields", children: a4(PayloadView, { text: artifact.fields, label: "fields" }) })
] }),
a4(Foot, { lines: [command("artifacts", "show", part.name, artifact.type, artifact.id)] })
] });
}
function HappeningRow({ happening }) {
let { at, look: look2, what, more, runId } = happening;
return a4("li", { children: [
a4(Time, { at }),
a4("span", { class: `t-${look2.tone} ink`, children: a4(Glyph, { name: look2.glyph }) }),
a4("span", { children: [
a4("b", { class: "strong", children: visible(what) }),
more.map((line2) => a4("span", { class: "muted", children: visible(line2) }, line2))
] }),
runId && a4("a", { href: `runs/${runId}`, children: "run" })
] });
}
function Moves({ part, artifact, again }) {
let moves = movesOf(part.declaration.artifacts[artifact.type], artifact.status);
return artifact.id.includes("/") ? a4("span", { class: "muted", children: "An id with a slash has no path in the API: it cannot be moved." }) : a4("span", { class: "actions", children: moves.map((move2) => a4(Move, { part, artifact, move: move2, again }, `${move2.by} ${move2.to}`)) });
}
function Move(props) {
let { part, artifact, move: move2 } = props, { type, id, revision } = artifact, [verb, words2, route] = move2.by === "approval" ? ["approve", "Approve", "approve"] : ["move", "Move to", "transition"], name = nameOfArtifact(artifact), to = visible(move2.to);
return a4(
Act,
{
label: `${words2} ${to}`,
title: `${words2} ${to}?`,
act: `${words2} ${to}`,
line: command("artifacts", verb, part.name, type, id, move2.to, "--revision", String(revision)),
run: async () => {
await post(`${part.path}/artifacts/${type}/${id}/${route}`, { to: move2.to, revision }), await props.again();
},
children: [
a4("p", { children: [
a4("code", { children: visible(name) }),
" goes from ",
a4("b", { children: visible(artifact.status) }),
" to ",
a4("b", { children: visible(move2.to) }),
", with its fields as they are. Roles act on the new status at once."
] }),
artifact.reservedBy && a4("p", { class: "t-halt ink", children: [
"A work order has taken it: ",
a4("code", { children: visible(artifact.reservedBy) }),
"."
] })
]
}
);
}

// src/graph/layout.ts
var BOX = { width: 136, height: 54 }, GAP = 96, LEVEL = 30, EDGE = 18, CORNER = 8;
function layout2(type, roles) {
let edges = edgesOf(type, roles), above = assignLevels(edges.filter(({ side }) => side === "above")), below = assignLevels(edges.filter(({ side }) => side === "below")), top = above === 0 ? EDGE : above * LEVEL + EDGE, boxes = type.statuses.map((status, i4) => ({
status,
x: 1 + i4 * (BOX.width + GAP),
y: top,
isInitial: status === type.initial,
isFinal: type.final?.includes(status) ?? !1
})), ports = portsOf(edges);
return {
width: boxes.length * (BOX.width + GAP) - GAP + 2,
height: top + BOX.height + (below === 0 ? 4 : below * LEVEL),
boxes,
arrows: edges.map((edge) => arrowOf(edge, boxes, ports))
};
}
function edgesOf({ statuses, transitions = [] }, roles) {
let edges = /* @__PURE__ */ new Map();
for (let transition of transitions) {
let [from, to] = [statuses.indexOf(transition.from), statuses.indexOf(transition.to)];
if (from < 0 || to < 0) continue;
let { kind, name } = moverOf(transition, roles), known = edges.get(`${from} ${to}`);
if (known) {
known.label += `, ${name}`;
continue;
}
let side = to <= from ? "above" : to === from + 1 ? void 0 : "below";
edges.set(`${from} ${to}`, { from, to, kind, label: name, side, level: 0 });
}
return [...edges.values()];
}
var spanOf = ({ from, to }) => [Math.min(from, to), Math.max(from, to)], lengthOf = ({ from, to }) => Math.abs(to - from);
function assignLevels(edges) {
let taken = [];
for (let edge of edges.sort((a5, b3) => lengthOf(a5) - lengthOf(b3))) {
let [first, last] = spanOf(edge), isFree = (level) => (taken[level] ?? []).every(([a5, b3]) => last < a5 || b3 < first);
for (; !isFree(edge.level); ) edge.level += 1;
taken[edge.level] = [...taken[edge.level] ?? [], [first, last]];
}
return taken.length;
}
function portsOf(edges) {
let ports = new Map(edges.map((edge) => [edge, { from: 0.5, to: 0.5 }])), ends = edges.flatMap(
(edge) => edge.side === void 0 ? [] : ["from", "to"].map((end2) => ({ edge, end: end2, box: edge[end2] }))
);
for (let group of groupBy(ends, ({ edge, box }) => `${edge.side} ${box}`).values()) {
let rank = ({ edge, end: end2, box }) => {
let other = end2 === "from" ? edge.to : edge.from;
return other === box ? end2 === "from" ? 0.2 : -0.2 : other < box ? -1e3 + lengthOf(edge) : 1e3 - lengthOf(edge);
};
group.sort((a5, b3) => rank(a5) - rank(b3)), group.forEach(({ edge, end: end2 }, i4) => {
ports.get(edge)[end2] = (i4 + 1) / (group.length + 1);
});
}
return ports;
}
function groupBy(items, keyOf) {
let groups = /* @__PURE__ */ new Map();
for (let item of items) {
let key2 = keyOf(item), group = groups.get(key2);
group ? group.push(item) : groups.set(key2, [item]);
}
return groups;
}
function arrowOf(edge, boxes, ports) {
let [a5, b3] = [boxes[edge.from], boxes[edge.to]], shared = { from: a5.status, to: b3.status, kind: edge.kind, label: edge.label };
if (edge.side === void 0) {
let y6 = a5.y + BOX.height / 2, [x12, x23] = [a5.x + BOX.width, b3.x];
return {
...shared,
path: `M${x12} ${y6}H${x23 - 1}`,
labelAt: { x: (x12 + x23) / 2 - 2, y: y6 - 6, width: GAP - 14 }
};
}
let port = ports.get(edge), [x1, x22] = [a5.x + BOX.width * port.from, b3.x + BOX.width * port.to], isAbove = edge.side === "above", start = isAbove ? a5.y : a5.y + BOX.height, y5 = start + (isAbove ? -1 : 1) * (edge.level + 0.7) * LEVEL;
return {
...shared,
path: bracket(x1, x22, start, y5),
labelAt: { x: (x1 + x22) / 2, y: y5 - 5, width: Math.max(BOX.width, Math.abs(x22 - x1)) - 16 }
};
}
function bracket(x1, x22, start, y5) {
let [way, out] = [Math.sign(x22 - x1) || 1, Math.sign(y5 - start)], r4 = Math.min(CORNER, Math.abs(x22 - x1) / 2);
return `M${x1} ${start}V${y5 - out * r4}Q${x1} ${y5} ${x1 + way * r4} ${y5}H${x22 - way * r4}Q${x22} ${y5} ${x22} ${y5 - out * r4}V${start + out}`;
}

// src/graph/picture.tsx
var MOVERS = {
role: { tone: "run", words: "moved by a role" },
gate: { tone: "retry", dash: "7 3", words: "moved by a gate" },
person: { tone: "wait", dash: "2 3", words: "moved by a person" }
}, LEAST_PX = 860, CHARACTER_PX = 6, clipped = (text2, width) => {
let most = Math.max(3, Math.floor(width / CHARACTER_PX)), shown = visible(text2);
return shown.length <= most ? shown : `${shown.slice(0, most - 1)}…`;
};
function Picture(props) {
let { width, height, boxes, arrows } = layout2(props.type, props.roles);
return (
// biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
a4("section", { class: "graph", tabIndex: 0, "aria-label": `Statuses of ${props.name}`, children: a4(
"svg",
{
width,
height,
viewBox: `0 0 ${width} ${height}`,
style: { minWidth: `${Math.min(width, LEAST_PX)}px` },
role: "group",
"aria-label": `Statuses of ${props.name} and who moves it between them`,
children: [
arrows.map((arrow) => a4(ArrowShape, { arrow }, `${arrow.from} ${arrow.to}`)),
boxes.map((box) => a4(
BoxShape,
{
box,
count: props.counts.get(box.status),
to: props.toStatus(box.status)
},
box.status
))
]
}
) })
);
}
function ArrowShape({ arrow }) {
let { tone, dash } = MOVERS[arrow.kind], { x: x3, y: y5, width } = arrow.labelAt;
return a4("g", { class: `t-${tone}`, children: [
a4("title", { children: visible(`${arrow.from} → ${arrow.to}: ${arrow.label}`) }),
a4("path", { class: "arrow", d: arrow.path, "stroke-dasharray": dash }),
a4("path", { class: "arrow-head", d: headOf(arrow.path) }),
a4("text", { class: "arrow-label", x: x3, y: y5, children: clipped(arrow.label, width) })
] });
}
function headOf(path2) {
let level = path2.match(/^M\S+ (\S+)H(\S+)$/);
if (level) {
let [y6, x4] = [Number(level[1]), Number(level[2])];
return `M${x4} ${y6}l-9 -4.500v9z`;
}
let [, x3, y0, y5] = path2.match(/ (\S+) (\S+)V(\S+)$/).map(Number);
return `M${x3} ${y5}l-4.500 ${Math.sign(y0 - y5) * 9}h9z`;
}
function BoxShape({ box, count: count2, to }) {
let { x: x3, y: y5, status, isFinal, isInitial } = box, note = isFinal ? "final" : count2?.oldestAt !== void 0 ? `oldest ${roughly(clock.value - count2.oldestAt)}` : "";
return a4("a", { href: to, children: [
a4(
"rect",
{
class: `box ${isFinal ? "final" : ""} ${isInitial ? "initial" : ""} ${count2 ? "some" : ""}`,
x: x3,
y: y5,
width: BOX.width,
height: BOX.height,
rx: "8"
}
),
a4("text", { class: "box-name", x: x3 + 12, y: y5 + 21, children: clipped(status, BOX.width - 16) }),
a4("text", { class: "box-count", x: x3 + 12, y: y5 + 43, children: count2?.count ?? 0 }),
a4("text", { class: "box-note", x: x3 + BOX.width - 12, y: y5 + 43, children: note })
] });
}
function Legend2() {
return a4("div", { class: "legend movers", children: [
Object.entries(MOVERS).map(([kind, { tone, dash, words: words2 }]) => a4("span", { children: [
a4("svg", { width: "30", height: "8", class: `t-${tone}`, "aria-hidden": "true", children: a4("path", { class: "arrow", d: "M0 4H30", "stroke-dasharray": dash }) }),
words2
] }, kind)),
a4("span", { children: [
a4("svg", { width: "22", height: "14", "aria-hidden": "true", children: a4("rect", { class: "box final", x: "2", y: "2", width: "18", height: "10", rx: "3" }) }),
"final status"
] })
] });
}

// src/pages/topology-tabs.tsx
var PAGE7 = 200;
function ArtifactLink({ deployment, name }) {
let to = `topologies/${inPath(deployment)}?artifact=${encodeURIComponent(name)}`;
return a4("a", { "data-row": !0, href: to, children: visible(name) });
}
var bound2 = (cursor, shown) => cursor && a4("div", { class: "bound muted", children: [
"the first ",
shown,
" by id; filter to see others"
] });
function ArtifactsTab({ path: path2, name, declaration }) {
let types = Object.keys(declaration.artifacts), asked2 = place.value.query, type = types.find((each) => each === asked2.get("type")) ?? types[0] ?? "", status = asked2.get("status") ?? "", query = useQuery(
`artifacts ${name} ${type} ${status}`,
"queues",
(signal) => get(`${path2}/artifacts/${type}`, { query: { status, limit: PAGE7 }, signal })
), statuses = declaration.artifacts[type]?.statuses ?? [];
return a4($, { children: [
types.length > 1 && a4("nav", { class: "chips", "aria-label": "Type", children: types.map((each) => a4(
"a",
{
class: `chip ${each === type ? "on" : ""}`,
"aria-current": each === type ? "true" : void 0,
href: `topologies/${inPath(name)}?tab=artifacts&type=${encodeURIComponent(each)}`,
children: visible(each)
},
each
)) }),
a4(Chips, { label: "Status", name: "status", choices: statuses.map((each) => [each, { word: visible(each) }]) }),
a4(
Listing,
{
query,
isEmpty: ({ artifacts }) => artifacts.length === 0,
empty: a4(
Empty,
{
title: status ? "No artifact has this status" : `No ${type} yet`,
lines: [command("artifacts", "create", name, type, "ID", "--fields", "{}")],
children: "An artifact is what the roles work on: it begins in its initial status and moves as the topology declares."
}
),
children: ({ artifacts, cursor }) => a4($, { children: [
a4(Table, { isList: !0, items: artifacts, by: nameOfArtifact, columns: artifactColumns(name) }),
bound2(cursor, artifacts.length)
] })
}
),
a4(Foot, { lines: [command("artifacts", "list", name, type, ...status ? ["--status", status] : [])] })
] });
}
var artifactColumns = (deployment) => [
[
"artifact",
(artifact) => a4(ArtifactLink, { deployment, name: nameOfArtifact(artifact) }),
"strong wide-cell"
],
["status", ({ status }) => visible(status)],
["since", ({ enteredAt }) => a4(Time, { at: enteredAt }), "nowrap"],
["cycles", ({ cycles }) => cycles, "num r hide-narrow"],
[
"taken by",
({ reservedBy, passed }) => reservedBy ? a4("code", { children: visible(reservedBy) }) : passed ? "passed, waits for a person" : "",
"wide-cell hide-narrow"
],
["created", ({ createdAt }) => a4(Time, { at: createdAt }), "nowrap hide-narrow"]
], ORDERS = {
active: { tone: "run", glyph: "run", word: "active" },
passed: { tone: "ok", glyph: "ok", word: "passed" },
failed: { tone: "bad", glyph: "bad", word: "failed" }
};
function reasonsOf({ record }) {
if (!record || record.gateResult === "PASS") return "";
let parts = record.gateReasons.map(({ check, message }) => `${check}: ${message}`);
return record.executionStatus !== "COMPLETED" && parts.unshift(record.executionStatus), parts.join("; ");
}
function OrdersTab({ path: path2, name }) {
let state = place.value.query.get("state") ?? "", query = useQuery(
`orders ${name} ${state}`,
"queues",
(signal) => get(`${path2}/workorders`, { query: { state, limit: PAGE7 }, signal })
);
return a4($, { children: [
a4(Chips, { label: "State", name: "state", choices: Object.entries(ORDERS) }),
a4(
Listing,
{
query,
isEmpty: ({ workOrders }) => workOrders.length === 0,
empty: a4(Empty, { title: state ? "No work order matches" : "No work order yet", children: "A scheduler makes a work order of an event; an executor does it; a gate judges what it returned." }),
children: ({ workOrders, cursor }) => a4($, { children: [
a4(Table, { isList: !0, items: newestFirst(workOrders), by: ({ id }) => id, columns: orderColumns(name) }),
bound2(cursor, workOrders.length)
] })
}
)
] });
}
var newestFirst = (orders) => [...orders].sort((a5, b3) => ms(b3.createdAt) - ms(a5.createdAt)), orderColumns = (deployment) => [
["state", ({ state }) => a4(Mark, { look: ORDERS[state] }), "nowrap"],
["work order", ({ template, runId }) => a4("a", { href: `runs/${runId}`, children: visible(template) }), "strong"],
[
"about",
({ artifacts }) => artifacts.map((artifact) => a4(ArtifactLink, { deployment, name: artifact }, artifact)),
"wide-cell"
],
["made", ({ createdAt }) => a4(Time, { at: createdAt }), "nowrap hide-narrow"],
["judged", ({ record }) => a4(Time, { at: record?.createdAt }), "nowrap hide-narrow"],
["why it failed", (order) => visible(reasonsOf(order)), "wide-cell hide-narrow"]
], CLAIMS = [
["what", ({ resource_type }) => resource_type.toLowerCase().replace("workorder", "work order"), "nowrap"],
["id", ({ resource_id }) => a4("code", { children: visible(resource_id) }), "wide-cell"],
["by", ({ owner_id }) => visible(owner_id), "wide-cell"],
["renewed", ({ heartbeat_at }) => a4(Time, { at: heartbeat_at }), "nowrap hide-narrow"],
["ends", ({ lease_expires_at }) => a4(Time, { at: lease_expires_at }), "nowrap"],
["version", ({ claim_version }) => claim_version, "num r hide-narrow"]
];
function ClaimsTab({ path: path2, name }) {
let query = useQuery(`claims ${name}`, "runs", (signal) => get(`${path2}/claims`, { signal }));
return a4($, { children: [
a4(
Listing,
{
query,
isEmpty: ({ claims }) => claims.length === 0,
empty: a4(Empty, { title: "Nothing is claimed", children: "A role claims an event or a work order while it decides about it, for moments. What stays here is taken by a role that runs in a process of its own." }),
children: ({ claims }) => a4(Table, { isList: !0, items: claims, by: ({ resource_id }) => resource_id, columns: CLAIMS })
}
),
a4(Foot, { lines: [command("claims", "--deployment", name)] })
] });
}
var OPEN = { tone: "wait", glyph: "wait", word: "open" }, CLOSED = { tone: "ok", glyph: "ok", word: "closed" };
function PausesTab(part) {
let { path: path2, name } = part, state = place.value.query.get("state") ?? "", query = useQuery(
`pauses ${name} ${state}`,
"queues",
(signal) => get(`${path2}/pause-states`, { query: { state, limit: PAGE7 }, signal })
);
return a4($, { children: [
a4(Chips, { label: "State", name: "state", choices: [
["open", OPEN],
["closed", CLOSED]
] }),
a4(
Listing,
{
query,
isEmpty: ({ pauseStates }) => pauseStates.length === 0,
empty: a4(Empty, { title: state ? "No pause state matches" : "Nothing has waited for a person", children: "A pause state says what a person has to decide or do, and what comes next." }),
children: ({ pauseStates, cursor }) => a4($, { children: [
a4(PauseTable, { part, pauses: pauseStates, again: query.again }),
bound2(cursor, pauseStates.length)
] })
}
),
a4(Foot, { lines: [command("inbox", "--deployment", name)] })
] });
}
var LEFT_OUT = /* @__PURE__ */ new Set(["state", "about", "since"]);
function PauseTable(props) {
let { part, pauses: pauses2, again, isShort } = props, columns2 = [
["state", ({ state }) => a4(Mark, { look: state === "open" ? OPEN : CLOSED }), "nowrap hide-narrow"],
[
"reason",
({ reason, subject }) => a4($, { children: [
a4("b", { class: "strong", children: visible(reason) }),
subject && a4("span", { class: isShort ? "under" : "show-narrow", children: a4(ArtifactLink, { deployment: part.name, name: subject }) })
] })
],
[
"about",
({ subject }) => subject && a4(ArtifactLink, { deployment: part.name, name: subject }),
"wide-cell hide-narrow"
],
["what to do", ({ actions }) => visible(actions.join(" ")), "wide-cell hide-narrow"],
["since", ({ createdAt }) => a4(Time, { at: createdAt }), "nowrap hide-narrow"],
["", (pause) => pause.state === "open" && a4(Close, { part, pause, again }), "r"]
];
return a4(
Table,
{
isList: !0,
items: pauses2,
by: ({ id }) => id,
columns: isShort ? columns2.filter(([head]) => !LEFT_OUT.has(head)) : columns2
}
);
}
function Close({ part, pause, again }) {
return a4(
Act,
{
label: "Close",
about: `${pause.reason} ${pause.subject ?? ""}`,
title: "Close this pause state?",
act: "Close it",
line: command("inbox", "close", part.name, pause.id),
run: async () => {
await post(`${part.path}/pause-states/close`, { id: pause.id }), await again();
},
children: [
a4("p", { children: [
a4("b", { children: visible(pause.reason) }),
pause.subject && a4($, { children: [
" ",
"about ",
a4("code", { children: visible(pause.subject) })
] }),
" ",
"leaves the lists of what waits for a person. It records that a person has seen to it, and moves nothing."
] }),
a4("ol", { class: "steps", children: pause.actions.map((action) => a4("li", { children: visible(action) }, action)) })
]
}
);
}

// src/pages/topology-picture.tsx
var PAGE8 = 500, COUNTED_MAX = 1e3, PAUSES = 5;
async function countAll(path2, type, signal) {
let { items, isCut } = await readPages(COUNTED_MAX, async (cursor) => {
let query = { limit: PAGE8, cursor }, page = await get(`${path2}/artifacts/${type}`, { query, signal });
return [page.artifacts, page.cursor];
});
return { counts: countByStatus(items), total: items.length, isCut };
}
async function read4({ path: path2, declaration }, signal) {
let types = Object.keys(declaration.artifacts), [active, open2, ...counted2] = await Promise.all([
get(`${path2}/workorders`, { query: { state: "active", limit: 50 }, signal }),
get(`${path2}/pause-states`, { query: { state: "open", limit: 50 }, signal }),
...types.map((type) => countAll(path2, type, signal))
]);
return { active, open: open2, counted: new Map(types.map((type, i4) => [type, counted2[i4]])) };
}
function PictureTab(part) {
let query = useQuery(`picture ${part.name}`, "queues", (signal) => read4(part, signal)), { declaration, name } = part;
return a4(Read, { query, children: ({ counted: counted2, active, open: open2 }) => a4($, { children: [
Object.entries(declaration.artifacts).map(([type, declared]) => a4(
TypeCard,
{
part,
name: type,
type: declared,
counted: counted2.get(type) ?? { counts: /* @__PURE__ */ new Map(), total: 0, isCut: !1 }
},
type
)),
a4(Legend2, {}),
a4("div", { class: "two", children: [
a4(Card, { title: "At work", note: atWork(active, declaration), children: active.workOrders.length === 0 ? a4("p", { class: "pad-x", children: "No work order is active." }) : a4(Table, { isList: !0, items: active.workOrders, by: ({ id }) => id, columns: atWorkColumns(name) }) }),
a4(Card, { title: "Waits for a person", note: open2.pauseStates.length > 0 ? count(open2) : "", children: open2.pauseStates.length === 0 ? a4("p", { class: "pad-x", children: "Nothing waits for a person." }) : a4(
PauseTable,
{
part,
pauses: open2.pauseStates.slice(0, PAUSES),
again: query.again,
isShort: !0
}
) })
] })
] }) });
}
var count = ({ pauseStates, cursor }) => `${pauseStates.length}${cursor ? " or more" : ""}`;
function atWork({ workOrders, cursor }, { limits }) {
let most = limits?.executors;
return `${workOrders.length}${cursor ? " or more" : ""}${most === void 0 ? "" : ` of ${most} executors`}`;
}
var atWorkColumns = (deployment) => [
["work order", ({ template, runId }) => a4("a", { href: `runs/${runId}`, children: visible(template) }), "strong"],
[
"about",
({ artifacts }) => artifacts.map((artifact) => a4(ArtifactLink, { deployment, name: artifact }, artifact)),
"wide-cell"
],
["since", ({ createdAt }) => a4(Time, { at: createdAt }), "nowrap r"]
];
function TypeCard(props) {
let { part, name, type, counted: counted2 } = props, total = `${counted2.isCut ? "at least " : ""}${counted2.total} ${counted2.total === 1 ? "artifact" : "artifacts"}`, toStatus = (status) => `topologies/${part.name}?tab=artifacts&type=${encodeURIComponent(name)}&status=${encodeURIComponent(status)}`, { roles } = part.declaration;
return a4(Card, { title: visible(name), note: `${total}${type.about ? `: ${visible(type.about)}` : ""}`, children: [
a4(Picture, { name, type, roles, counts: counted2.counts, toStatus }),
a4("div", { class: "graph-table", children: a4(
Table,
{
isList: !0,
items: type.statuses,
by: (status) => status,
columns: statusColumns(type, roles, counted2.counts, toStatus)
}
) })
] });
}
var statusColumns = (type, roles, counts, toStatus) => [
["status", (status) => a4("a", { href: toStatus(status), children: visible(status) }), "strong"],
[
"now",
(status) => {
let { count: count2 = 0, oldestAt } = counts.get(status) ?? {}, isResting = oldestAt !== void 0 && !type.final?.includes(status);
return a4($, { children: [
count2,
isResting && a4("span", { class: "under muted", children: roughly(clock.value - oldestAt) })
] });
},
"num r nowrap"
],
["goes on to", (status) => visible(waysOf(type, roles, status)), "wide-cell"]
];
function waysOf(type, roles, status) {
let ways = (type.transitions ?? []).filter(({ from }) => from === status);
return ways.length === 0 ? "final" : ways.map((way) => `${way.to} (${moverOf(way, roles).name})`).join(", ");
}

// src/pages/topologies.tsx
var PAGE9 = 200;
function TopologiesPage({ name }) {
return document.title = "Topologies · Tenure", name ? a4(DeploymentPage, { path: name }) : a4(DeploymentsList, {});
}
var LOOKS = {
active: { tone: "run", glyph: "run", word: "active" },
paused: { tone: "retry", glyph: "park", word: "paused" },
deleted: { tone: "queue", glyph: "cancel", word: "deleted" }
}, COLUMNS5 = [
["state", ({ state }) => a4(Mark, { look: LOOKS[state] }), "nowrap"],
[
"deployment",
({ name }) => a4("a", { "data-row": !0, href: `topologies/${inPath(name)}`, children: visible(name) }),
"strong"
],
["topology", ({ topology }) => visible(topology), "hide-narrow"],
["version", ({ version }) => a4(Digest, { value: hexOf(version), short: !0 }), "nowrap hide-narrow"],
["in force since", ({ appliedAt }) => a4(Time, { at: appliedAt }), "nowrap"]
], hexOf = (version) => version.replace(/^sha256:/, "");
function DeploymentsList() {
let query = useQuery(
"deployments",
"queues",
(signal) => get("v1/deployments", { query: { limit: PAGE9 }, signal })
);
return a4($, { children: [
a4(Head, { title: "Topologies", note: "how artifacts move through roles, gates and people" }),
a4(
Listing,
{
query,
isEmpty: ({ deployments }) => deployments.length === 0,
empty: a4(
Empty,
{
title: "No topology is in force",
lines: ["tenure tour topology", "tenure topology apply topologies/agent-review.yaml"],
children: "A topology declares which statuses an artifact has, which work they make, which gates judge the output, and when a person is asked."
}
),
children: ({ deployments, cursor }) => a4($, { children: [
a4(Table, { isList: !0, items: deployments, by: ({ name }) => name, columns: COLUMNS5 }),
cursor && a4("div", { class: "bound muted", children: [
"the first ",
deployments.length,
" by name"
] })
] })
}
),
a4(Foot, { lines: ["tenure topology list"] })
] });
}
var TABS2 = [
["picture", "Picture"],
["artifacts", "Artifacts"],
["orders", "Work orders"],
["claims", "Claims"],
["pauses", "Pause states"],
["declaration", "Declaration"]
];
function DeploymentPage({ path: path2 }) {
let query = useQuery(
`deployment ${path2}`,
"queues",
(signal) => get(`v1/deployments/${path2}`, { signal })
);
return a4($, { children: [
a4(Crumb, { name: "Topologies", to: "topologies" }),
a4(Read, { query, children: (deployment) => a4(Shown6, { deployment, again: query.again }) })
] });
}
function Shown6({ deployment, again }) {
let { name, state, version, appliedAt } = deployment, declaration = declarationOf(deployment.declaration ?? '{"artifacts":{}}'), tab = place.value.query.get("tab") ?? "picture", artifact = place.value.query.get("artifact"), props = { path: `v1/deployments/${inPath(name)}`, name, declaration };
return a4($, { children: [
a4(Head, { title: name, look: LOOKS[state], note: declaration.about && visible(declaration.about), children: a4(Actions2, { deployment, again }) }),
a4(
Facts,
{
of: [
["in force since", a4(Time, { at: appliedAt })],
["version", a4(Digest, { value: hexOf(version), short: !0 })]
]
}
),
state === "paused" && a4("p", { class: "story t-retry", children: "Paused: its roles do nothing until it is resumed. What executors have goes on." }),
a4(Tabs, { tabs: TABS2, on: artifact ? "artifacts" : tab }),
artifact ? a4(ArtifactStory, { ...props, artifact }, artifact) : a4($, { children: [
tab === "artifacts" && a4(ArtifactsTab, { ...props }),
tab === "orders" && a4(OrdersTab, { ...props }),
tab === "claims" && a4(ClaimsTab, { ...props }),
tab === "pauses" && a4(PausesTab, { ...props }),
tab === "declaration" && a4(Card, { title: "Declaration", note: "the version in force", children: a4(PayloadView, { text: deployment.declaration ?? "null", label: "the declaration" }) }),
!TABS2.some(([id], i4) => i4 > 0 && id === tab) && a4(PictureTab, { ...props })
] }),
a4(Foot, { lines: [command("topology", "show", name)] })
] });
}
var VERBS = {
pause: {
label: "Pause",
act: "Pause the deployment",
words: "Its roles do nothing more: no event becomes work, and no output is judged. What executors have goes on, and waits to be judged until you resume it."
},
resume: {
label: "Resume",
act: "Resume the deployment",
words: "Its roles work again at once, and begin with what has come meanwhile."
},
delete: {
label: "Delete",
act: "Delete the deployment",
words: "The deployment and its artifacts are gone; the runs and their records stay. The server refuses this while a work order is active. This cannot be undone."
}
};
function Actions2({ deployment, again }) {
let { name, state } = deployment;
return a4("span", { class: "actions", children: [state === "paused" ? "resume" : "pause", "delete"].map((verb) => {
let { label, act: act2, words: words2 } = VERBS[verb];
return a4(
Act,
{
label,
title: `${label} ${visible(name)}?`,
act: act2,
isDanger: verb === "delete",
line: command("topology", verb, name),
run: async () => {
await post(`v1/deployments/${inPath(name)}/${verb}`, {}), verb === "delete" ? go("topologies") : await again();
},
children: a4("p", { children: words2 })
},
verb
);
}) });
}

// src/parts/help.tsx
var KEYS = [
["/", "jump to a run, a worker, a label or a page"],
["j  k", "next and previous row"],
["Enter", "open the row"],
[".", "actions of this page"],
["t", "times: relative, local, UTC"],
["?", "this list"]
], pages = () => [
"g then a letter",
offered().map(({ key: key2, name }) => `${key2} ${name.toLowerCase()}`).join(", ")
];
function HelpDialog({ close: close3 }) {
let element = T2(null);
return A2(() => element.current?.showModal(), []), a4("dialog", { ref: element, onClose: close3, "aria-labelledby": "help-title", children: a4("form", { method: "dialog", children: [
a4("h2", { id: "help-title", children: "Keys" }),
a4("table", { children: a4("tbody", { children: [...KEYS, pages()].map(([key2, what]) => a4("tr", { children: [
a4("td", { children: a4("kbd", { children: key2 }) }),
a4("td", { children: what })
] }, key2)) }) }),
a4("p", { class: "muted", children: "No key acts without a dialog that says what will happen." }),
a4("footer", { children: a4("button", { type: "submit", class: "btn primary", children: "Close" }) })
] }) });
}

// src/parts/jump.tsx
function targets(typed) {
let text2 = typed.trim();
if (text2 === "") return [];
let found = [];
/^(run|task)_[0-9A-Z]{10,}$/i.test(text2) && found.push({ words: `open ${text2}`, to: `runs/${text2}` });
for (let { name, to } of PAGES)
name.toLowerCase().startsWith(text2.toLowerCase()) && found.push({ words: `page ${name.toLowerCase()}`, to });
/^appr_/.test(text2) && found.push({ words: `open approval ${text2}`, to: `inbox/${text2}` }), /^eff_/.test(text2) && found.push({ words: `open effect ${text2}`, to: `effects/${text2}` });
let label = text2.match(/^([^:=\s]+)[:=](.+)$/), value = encodeURIComponent(text2);
return label && found.push({
words: `runs with the label ${label[1]}=${label[2]}`,
to: `runs?label=${encodeURIComponent(`${label[1]}=${label[2]}`)}`
}), /^[A-Za-z0-9._:/-]+$/.test(text2) && (found.push({ words: `runs of the kind ${text2}`, to: `runs?kind=${value}` }), found.push({ words: `runs of the worker ${text2}`, to: `runs?worker=${value}` }), found.push({ words: `runs of the queue ${text2}`, to: `runs?queue=${value}` })), found;
}
function Jump() {
let typed = useSignal(""), at = useSignal(0), found = targets(typed.value), leave = (to) => {
typed.value = "", document.activeElement?.blur(), go(to);
}, onKey = (event) => {
if (event.key === "ArrowDown") at.value = Math.min(found.length - 1, at.value + 1);
else if (event.key === "ArrowUp") at.value = Math.max(0, at.value - 1);
else if (event.key === "Enter" && found[at.value]) leave(found[at.value].to);
else if (event.key === "Escape") typed.value = "";
else return;
event.preventDefault();
};
return a4("div", { class: "jump", children: [
a4(
"svg",
{
width: "14",
height: "14",
viewBox: "0 0 14 14",
fill: "none",
stroke: "currentColor",
"stroke-width": "1.500",
"aria-hidden": "true",
children: [
a4("circle", { cx: "6", cy: "6", r: "4.200" }),
a4("path", { d: "M9.200 9.200L13 13" })
]
}
),
a4(
"input",
{
id: "jump",
type: "text",
role: "combobox",
"aria-label": "Jump to a run, worker, label or page",
"aria-expanded": found.length > 0,
"aria-controls": "jump-list",
"aria-activedescendant": found.length > 0 ? `jump-${at.value}` : void 0,
placeholder: "Run, worker, label or page",
autocomplete: "off",
spellcheck: !1,
value: typed.value,
onInput: (event) => {
typed.value = event.currentTarget.value, at.value = 0;
},
onKeyDown: onKey,
onBlur: () => {
typed.value = "";
}
}
),
a4("kbd", { "aria-hidden": "true", children: "/" }),
a4("div", { id: "jump-list", role: "listbox", "aria-label": "Targets", hidden: found.length === 0, children: found.map((target, i4) => a4(
"div",
{
id: `jump-${i4}`,
role: "option",
"aria-selected": i4 === at.value,
onMouseDown: () => leave(target.to),
children: target.words
},
target.to + target.words
)) })
] });
}

// src/rail.tsx
function Rail() {
let pages2 = offered(), first = pages2.filter(({ group }) => group === void 0), rest = pages2.filter(({ group }) => group !== void 0);
return a4("nav", { class: "rail", "aria-label": "Pages", children: [
a4("a", { class: "brand", href: "./", children: [
a4(Brand, {}),
a4("span", { children: "Tenure" })
] }),
first.map((entry) => a4(Entry, { entry, children: entry.to === "inbox" && a4(Waiting, {}) }, entry.to)),
rest.length > 0 && a4(Rest, { pages: rest })
] });
}
function Rest({ pages: pages2 }) {
let isOpen = useSignal(!1), here = entryOf(place.value.path[0]), close3 = () => {
isOpen.value = !1;
};
return A2(() => {
let onKey = (event) => {
event.key === "Escape" && close3();
};
return addEventListener("keydown", onKey), () => removeEventListener("keydown", onKey);
}, []), A2(close3, [place.value]), a4($, { children: [
a4(
"button",
{
type: "button",
class: `more ${here?.group ? "on" : ""}`,
"aria-expanded": isOpen.value,
"aria-controls": "more-pages",
onClick: () => {
isOpen.value = !isOpen.value;
},
children: [
a4(Icon, { path: "M3 8h.01M8 8h.01M13 8h.01", width: 2.4 }),
here?.group ? here.name : "More"
]
}
),
a4("div", { id: "more-pages", class: isOpen.value ? "rest open" : "rest", children: ["Work", "Operate"].map((group) => {
let entries = pages2.filter((entry) => entry.group === group);
return entries.length > 0 && a4("div", { children: [
a4("div", { class: "group", children: group }),
entries.map((entry) => a4(Entry, { entry }, entry.to))
] }, group);
}) })
] });
}
function Waiting() {
let may = mayRead("approvals"), waiting2 = useQuery(
`rail-inbox ${may}`,
"inbox",
async (signal) => may ? get("v1/approvals", { query: { state: "pending", limit: 100 }, signal }) : { approvals: [] }
).data.value?.approvals.length ?? 0;
return waiting2 === 0 ? null : a4("span", { class: "badge ask", children: [
waiting2,
a4("span", { class: "vh", children: " waiting" })
] });
}
function Brand() {
return a4("svg", { width: "22", height: "22", viewBox: "0 0 22 22", "aria-hidden": "true", children: [
a4("rect", { class: "t-queue fill", x: "1", y: "4", width: "11", height: "5", rx: "2.500" }),
a4("rect", { class: "t-run fill", x: "9", y: "13", width: "12", height: "5", rx: "2.500" }),
a4("path", { class: "t-retry stroke", d: "M12 6.500h2.200c2.400 0-.9 9 0 9", "stroke-width": "1.800" })
] });
}
function Entry({ entry, children }) {
let isOn = entryOf(place.value.path[0]) === entry;
return a4(
"a",
{
href: entry.to === "" ? "./" : entry.to,
class: isOn ? "on" : "",
"aria-current": isOn ? "page" : void 0,
children: [
a4(Icon, { path: entry.icon }),
entry.name,
children
]
}
);
}
function Icon({ path: path2, width = 1.4 }) {
return a4(
"svg",
{
width: "16",
height: "16",
viewBox: "0 0 16 16",
fill: "none",
stroke: "currentColor",
"stroke-width": width,
"stroke-linecap": "round",
"aria-hidden": "true",
children: a4("path", { d: path2 })
}
);
}

// src/theme.ts
var STORED3 = "tenure.theme", theme = y3("system");
function startTheme() {
let stored = localStorage.getItem(STORED3);
(stored === "light" || stored === "dark") && (theme.value = stored), x2(() => {
localStorage.setItem(STORED3, theme.value), theme.value === "system" ? delete document.documentElement.dataset.theme : document.documentElement.dataset.theme = theme.value;
});
}
var NEXT_THEME = { system: "light", light: "dark", dark: "system" };

// src/shell.tsx
function App() {
return person.value === null ? a4(LoginPage, {}) : a4(Shell, {}, person.value.keyId);
}
function Shell() {
let isHelpOpen = useSignal(!1);
A2(() => (discoverAccess().then(() => mayRead("keys") ? discoverNames() : void 0), startKeys({
help: () => {
isHelpOpen.value = !0;
}
})), []);
let page = offered().length > 0 ? a4(Page, {}) : a4(NoAccess, {});
return a4("div", { class: "shell", children: [
a4("button", { type: "button", class: "skip", onClick: () => document.getElementById("main")?.focus(), children: "Skip to the content" }),
a4(Rail, {}),
a4("div", { class: "page", children: [
a4(Header, {}),
a4("main", { id: "main", tabIndex: -1, children: access.value.isKnown && page })
] }),
a4(Asked, {}),
isHelpOpen.value && a4(
HelpDialog,
{
close: () => {
isHelpOpen.value = !1;
}
}
)
] });
}
function NoAccess() {
return a4(
Empty,
{
title: "This key may read nothing that the console shows",
lines: ["tenure keys create --role reader --name my-console"],
children: "The console needs a key with the role reader, client or admin, or approver for the Inbox alone."
}
);
}
function Page() {
let [first, second, third] = place.value.path, entry = entryOf(first);
if (!entry)
return a4(Empty, { title: "There is no such page", children: [
"The address names no page of the console. ",
a4("a", { href: "./", children: "Go to the first page" }),
"."
] });
let refusal4 = refusalOf(entry);
return refusal4 ? a4(Forbidden, { entry, refusal: refusal4 }) : show(entry, second, third);
}
function show({ to }, second, third) {
switch (to) {
case "runs":
return second ? a4(RunPage, { id: second, tab: third ?? "timeline" }, second) : a4(RunsPage, {});
case "inbox":
return a4(InboxPage, { item: second });
case "queues":
return a4(QueuesPage, { name: second });
case "schedules":
return a4(SchedulesPage, { name: second });
case "effects":
return a4(EffectsPage, { id: second });
case "topologies":
return a4(TopologiesPage, { name: second }, second);
case "limits":
return a4(LimitsPage, {});
case "audit":
return a4(AuditPage, {});
case "keys":
return a4(KeysPage, {});
case "health":
return a4(HealthPage, {});
default:
return a4(OverviewPage, {});
}
}
function Forbidden({ entry, refusal: refusal4 }) {
document.title = `${entry.name} · Tenure`;
let { keyId } = person.value;
return a4($, { children: [
a4(Head, { title: entry.name }),
a4(Failed, { problem: refusal4 }),
a4("p", { class: "soft", children: [
"You are logged in with the key ",
a4("code", { children: visible(nameOf(keyId)) }),
". Log out and in again with another key to see this page."
] })
] });
}
function Header() {
let who = person.value, { tenant, workspace } = access.value, isUtc = timeStyle.value === "utc";
return a4("header", { class: "top", children: [
mayRead("runs") && a4(Jump, {}),
a4("span", { class: "sp" }),
a4(Live, {}),
a4(
"button",
{
type: "button",
class: "plain num",
title: "Switch between relative, local and UTC times (t)",
onClick: () => {
timeStyle.value = NEXT_STYLE[timeStyle.value];
},
children: [
isUtc ? "UTC " : timeStyle.value === "local" ? "local " : "",
clockTime(clock.value, clock.value, isUtc)
]
}
),
tenant && a4("span", { class: "soft scope", children: [
tenant,
" / ",
workspace
] }),
a4(
"button",
{
type: "button",
class: "plain",
title: "Theme",
onClick: () => {
theme.value = NEXT_THEME[theme.value];
},
children: [
a4("span", { class: "vh", children: "Theme: " }),
theme.value
]
}
),
who && a4("span", { class: "who", children: [
a4("span", { class: "ava", "aria-hidden": "true", children: nameOf(who.keyId).slice(0, 1).toUpperCase() }),
a4("code", { title: `your key, ${who.keyId}`, children: visible(nameOf(who.keyId)) }),
a4("button", { type: "button", class: "link", onClick: () => end("You are logged out"), children: "log out" })
] })
] });
}
function Live() {
return isLive.value ? a4("span", { class: "live", children: [
a4("i", {}),
"live"
] }) : a4("span", { class: "live stale", role: "status", children: [
a4("i", {}),
"as of ",
clockTime(asOf.value, asOf.value, timeStyle.value === "utc"),
", connecting"
] });
}

// src/main.tsx
startTheme();
rememberTimeStyle(localStorage);
startClock();
restore();
startRouter();
markTitle();
Q(a4(App, {}), document.body);
