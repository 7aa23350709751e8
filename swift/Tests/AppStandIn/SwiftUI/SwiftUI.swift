// The declarations of SwiftUI that the example app uses, by Apple's documentation (developer.apple.com/documentation/swiftui), so that a
// misspelt call fails to compile on Linux. They show nothing.
@_exported import Foundation
@_exported import Observation

@MainActor @preconcurrency public protocol App {
    associatedtype Body: Scene
    var body: Body { get }
    init()
}
extension App { public static func main() {} }

@MainActor @preconcurrency public protocol Scene {}

public struct WindowGroup<Content: View>: Scene {
    public init(@ViewBuilder content: () -> Content) {}
}

@MainActor @preconcurrency public protocol View {
    associatedtype Body: View
    @ViewBuilder var body: Body { get }
}
extension Never: View { public var body: Never { fatalError("no view has a body here") } }

/// What all views here are made of.
public protocol Leaf: View where Body == Never {}
extension Leaf { public var body: Never { fatalError("no view has a body here") } }

@resultBuilder public enum ViewBuilder {
    public static func buildExpression<Content: View>(_ content: Content) -> Content { content }
    public static func buildBlock<Content: View>(_ content: Content) -> Content { content }
    public static func buildIf<Content: View>(_ content: Content?) -> Optionally<Content> { Optionally() }
    public static func buildEither<One: View, Other: View>(first: One) -> Either<One, Other> { Either() }
    public static func buildEither<One: View, Other: View>(second: Other) -> Either<One, Other> { Either() }
    public static func buildBlock<each Content: View>(_ content: repeat each Content) -> TupleView<(repeat each Content)> { TupleView() }
}
public struct Optionally<Content: View>: Leaf {}
public struct Either<One: View, Other: View>: Leaf {}
public struct TupleView<T>: Leaf {
    nonisolated init() {}
}

@propertyWrapper public struct State<Value> {
    private let box: Box
    private final class Box { var value: Value; init(_ value: Value) { self.value = value } }
    public var wrappedValue: Value { get { box.value } nonmutating set { box.value = newValue } }
    public init(wrappedValue value: Value) { box = Box(value) }
    public var projectedValue: Binding<Value> { Binding(wrappedValue) }
}
@dynamicMemberLookup public struct Binding<Value> {
    private let value: Value
    init(_ value: Value) { self.value = value }
    public subscript<Subject>(dynamicMember keyPath: WritableKeyPath<Value, Subject>) -> Binding<Subject> { Binding<Subject>(value[keyPath: keyPath]) }
}

public struct Font: Sendable { public static let footnote = Font() }
public struct Text: Leaf {
    public init<S: StringProtocol>(_ content: S) {}
    public func bold() -> Text { self }
    public static func + (one: Text, other: Text) -> Text { one }
}
public struct Section<Content: View>: Leaf { public init<S: StringProtocol>(_ title: S, @ViewBuilder content: () -> Content) {} }
public struct TabView<Content: View>: Leaf { public init(@ViewBuilder content: () -> Content) {} }
public struct ShareLink<Label: View>: Leaf { public init(item: URL, @ViewBuilder label: () -> Label) {} }
public struct TextEditor: Leaf { public init(text: Binding<String>) {} }
public struct VStack<Content: View>: Leaf {
    public init(spacing: CGFloat? = nil, @ViewBuilder content: () -> Content) {}
}
public struct ForEach<Data: RandomAccessCollection, ID: Hashable, Content: View>: Leaf {
    public init(_ data: Data, id: KeyPath<Data.Element, ID>, @ViewBuilder content: @escaping (Data.Element) -> Content) {}
}
public struct Picker<Label: View, SelectionValue: Hashable, Content: View>: Leaf {
    public init<S: StringProtocol>(_ title: S, selection: Binding<SelectionValue>, @ViewBuilder content: () -> Content) where Label == Text {}
}
public struct Button<Label: View>: Leaf {
    public init<S: StringProtocol>(_ title: S, action: @escaping @MainActor () -> Void) where Label == Text {}
}

extension View {
    public func disabled(_ disabled: Bool) -> some View { self }
    public func font(_ font: Font?) -> some View { self }
    public func padding() -> some View { self }
    public func tabItem<V: View>(@ViewBuilder _ label: () -> V) -> some View { self }
    public func task(@_inheritActorContext _ action: @escaping @Sendable () async -> Void) -> some View { self }
}
